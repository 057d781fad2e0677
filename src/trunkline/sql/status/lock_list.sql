-- Who holds, and who waits for, the lock of a partition, or of a topic (partition is null). pid is null for a
-- prepared transaction. Names and process ids only: what a session does is for lock_holder_list.
-- errors: none
-- grants: admin
create function trunkline.lock_list()
returns table (topic text, partition integer, pid integer, granted boolean, waiting_since timestamptz)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    with ours as (
        select l.classid, l.objid, l.pid, l.granted, l.waitstart from pg_locks l
        where l.locktype = 'advisory' and l.objsubid = 2
            and l.database = (select d.oid from pg_database d where d.datname = current_database()))
    select t.name, p.partition, o.pid, o.granted, o.waitstart
    from ours o join trunkline.topic_partition p on p.partition_id::oid = o.objid
    join trunkline.topic t using (topic_id)
    where o.classid = trunkline.lock_class()::oid
    union all
    select t.name, null, o.pid, o.granted, o.waitstart
    from ours o join trunkline.topic t on t.topic_id::oid = o.objid
    where o.classid = (trunkline.lock_class() + 1)::oid
$$;
