-- The first offset of a partition that is still there.
-- grants: none
create function trunkline.queue_log_start(topic_id integer, partition integer) returns bigint
language sql volatile
as $$
    select sp.first_offset
    from trunkline.topic_partition p join trunkline.segment_partition sp using (partition_id)
    join trunkline.segment s using (segment_id)
    where p.topic_id = queue_log_start.topic_id and p.partition = queue_log_start.partition and s.released_at is null
    order by sp.segment_id limit 1
$$;
