-- Makes this session the one by which a process is known to be alive: it holds a lock on the process's number until it
-- ends. Give the number again to go on with another session after one was lost; where the old session is still there,
-- as after a network that swallowed everything, the process gets a new number, and its members go with it.
-- Not through a pooler, where sessions are not the client's own: call member_beat there.
-- locks: the process's number, for the session
-- errors: TL001
-- grants: consumer
create function trunkline.member_session(session_no integer default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    no integer;
begin
    if session_no < 1 then
        raise exception 'not the number of a process: %', session_no using errcode = 'TL001',
            hint = 'give none, and take the one that is returned';
    end if;
    no := coalesce(session_no, nextval('trunkline.member_session_no'));
    while not pg_try_advisory_lock(trunkline.lock_class() + 3, no) loop
        no := nextval('trunkline.member_session_no');
    end loop;
    if no <> session_no then
        update trunkline.group_member m set session_no = no where m.session_no = member_session.session_no;
    end if;
    return no;
end $$;
