-- Adds the partitions `first` to `last` of a topic, each beginning at offset 1 of the open segment.
-- Their ids ascend with their numbers: sorted by number is sorted by lock.
-- grants: none
create function trunkline.partition_create(topic_id integer, first integer, last integer) returns void
language plpgsql volatile
as $$
begin
    insert into trunkline.topic_partition (topic_id, partition)
    select partition_create.topic_id, n from generate_series(first, last) n order by n;
    insert into trunkline.segment_partition (partition_id, segment_id, first_offset, time_floor)
    select p.partition_id, t.open_segment_id, 1, '-infinity'
    from trunkline.topic_partition p join trunkline.topic t using (topic_id)
    where p.topic_id = partition_create.topic_id and p.partition >= partition_create.first;
end $$;
