-- Says that a process is alive, where its sessions are a pooler's: a row each time. Returns its number, a new one where
-- none is given. Old beats go with group_sweep.
-- errors: none
-- grants: consumer
create function trunkline.member_beat(session_no integer default null) returns integer
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    insert into trunkline.session_beat as b (session_no, at)
    values (coalesce(member_beat.session_no, nextval('trunkline.member_session_no')), trunkline.clock_now())
    returning b.session_no
$$;
