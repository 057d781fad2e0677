-- Raises a topic's number of partitions. Keys are then routed by the new number, so a key's later records may
-- stand in another partition than its earlier ones: refused where the log has keyed records, unless asked for.
-- locks: the topic, then every partition in ascending order: no record is routed by both numbers at once
-- errors: TL001 TL002 TL004 TL010, 55P03
-- grants: admin
create function trunkline.topic_add_partitions(
    topic text, partitions integer, break_key_order boolean default false) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id  constant integer := trunkline.topic_id_of(topic);
    old  integer;
    part record;
    open integer;
begin
    perform trunkline.topic_lock(id);
    select t.partitions into old from trunkline.topic t where t.topic_id = id;
    if partitions is null or partitions <= old or partitions > 1024 then
        raise exception 'topic % has % partitions; the new number must be higher, at most 1024, not %',
            topic, old, coalesce(partitions::text, 'null') using errcode = 'TL001';
    end if;
    open := trunkline.segment_create(id);
    perform trunkline.lock_partition(p.partition_id) from (
        select tp.partition_id from trunkline.topic_partition tp where tp.topic_id = id order by tp.partition_id) p;
    if not coalesce(break_key_order, false) and trunkline.topic_is_keyed(id) then
        raise exception 'topic % has keyed records, whose order would break at % partitions', topic, partitions
            using errcode = 'TL010', hint = 'ask for it with break_key_order, or publish to a new topic';
    end if;
    -- Into a new segment: an append that was routed by the old number, and waits for a lock, finds its partition closed.
    for part in select p.partition_id, p.partition from trunkline.topic_partition p where p.topic_id = id loop
        perform trunkline.partition_move(part.partition_id, part.partition, open);
    end loop;
    update trunkline.topic t set partitions = topic_add_partitions.partitions, open_segment_id = open
    where t.topic_id = id;
    perform trunkline.queue_redefine(q.queue_id) from (
        select x.queue_id from trunkline.queue x where x.topic_id = id order by x.queue_id) q;
    perform trunkline.partition_create(id, old, partitions - 1);
    perform trunkline.segment_define(open);
end $$;
