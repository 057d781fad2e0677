-- The segments of one partition that hold offsets from `start` on, oldest first, each with the offset at which
-- the next one begins (null for the newest).
-- errors: TL002, TL005 where start lies before the log
-- grants: none
create function trunkline.log_segments(topic_id integer, partition integer, start bigint)
returns table (segment_id integer, first_offset bigint, next_first bigint)
language plpgsql volatile
as $$
declare
    part_id  integer;
    from_id  integer;
begin
    select p.partition_id into part_id from trunkline.topic_partition p
    where p.topic_id = log_segments.topic_id and p.partition = log_segments.partition;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    elsif start is null then
        raise exception 'start must not be null' using errcode = 'TL001';
    end if;
    select sp.segment_id into from_id
    from trunkline.segment_partition sp join trunkline.segment s using (segment_id)
    where sp.partition_id = part_id and s.released_at is null and sp.first_offset <= start
    order by sp.segment_id desc limit 1;
    if not found then
        perform trunkline.log_raise_outside(topic_id, partition, start);
    end if;
    return query
        select sp.segment_id, sp.first_offset, lead(sp.first_offset) over (order by sp.segment_id)
        from trunkline.segment_partition sp
        where sp.partition_id = part_id and sp.segment_id >= from_id order by sp.segment_id;
end $$;
