-- Who holds, and who waits for, the lock of a partition, of a topic (partition is null), or of a group's cursor in a
-- partition (group_name is not null). pid is null for a prepared transaction. Names and process ids only: what a session
-- does is for lock_holder_list.
-- errors: none
-- grants: admin
create function trunkline.lock_list()
returns table (
    topic text, partition integer, pid integer, granted boolean, waiting_since timestamptz, group_name text)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    with ours as (
        select l.classid, l.objid, l.pid, l.granted, l.waitstart from pg_locks l
        where l.locktype = 'advisory' and l.objsubid = 2
            and l.database = (select d.oid from pg_database d where d.datname = current_database()))
    select t.name, p.partition, o.pid, o.granted, o.waitstart, null
    from ours o join trunkline.topic_partition p on p.partition_id::oid = o.objid
    join trunkline.topic t using (topic_id)
    where o.classid = trunkline.lock_class()::oid
    union all
    select t.name, null, o.pid, o.granted, o.waitstart, null
    from ours o join trunkline.topic t on t.topic_id::oid = o.objid
    where o.classid = (trunkline.lock_class() + 1)::oid
    union all
    select t.name, p.partition, o.pid, o.granted, o.waitstart, g.name
    from ours o join trunkline.group_cursor c on c.cursor_id::oid = o.objid
    join trunkline.reader_group g using (group_id)
    join trunkline.topic_partition p using (partition_id)
    join trunkline.topic t using (topic_id)
    where o.classid = (trunkline.lock_class() + 2)::oid
$$;
