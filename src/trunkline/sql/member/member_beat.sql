-- Says that a process is alive, where its sessions are a pooler's: a row each time. Returns its number, a new one where
-- none is given. Old beats go with group_sweep.
-- errors: TL001
-- grants: consumer
create function trunkline.member_beat(session_no integer default null) returns integer
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
    insert into trunkline.session_beat (session_no, at) values (no, trunkline.clock_now());
    return no;
end $$;
