-- Whether this session's transaction holds a lock of ours.
-- grants: none
create function trunkline.lock_is_mine() returns boolean
language sql volatile
as $$
    select exists (select from pg_locks l where l.pid = pg_backend_pid() and l.locktype = 'advisory'
        and l.classid = trunkline.lock_class()::oid)
$$;
