-- Sees to it that a partition is in its topic's open segment, and returns that segment.
-- locks: none; the caller holds the partition's lock
-- errors: TL002 a partition that is gone
-- grants: none
create function trunkline.partition_prepare(partition_id integer) returns integer
language plpgsql volatile
as $$
declare
    place record;
begin
    select t.open_segment_id, p.partition, sp.first_offset into place
    from trunkline.topic_partition p join trunkline.topic t using (topic_id)
    left join trunkline.segment_partition sp
        on sp.partition_id = p.partition_id and sp.segment_id = t.open_segment_id
    where p.partition_id = partition_prepare.partition_id;
    if not found then
        raise exception 'the topic was deleted' using errcode = 'TL002',
            hint = 'create it with topic_create or `trunkline topic create`';
    elsif place.first_offset is null then
        perform trunkline.partition_move(partition_id, place.partition, place.open_segment_id);
    end if;
    return place.open_segment_id;
end $$;
