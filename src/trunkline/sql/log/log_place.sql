-- The segment in which a partition's offset stands, or will stand; where the partition begins in it, and where in the
-- next one (null in the newest).
-- errors: TL001 TL002, TL005 where the offset lies before the log
-- grants: none
create function trunkline.log_place(
    topic_id integer, partition integer, at_offset bigint,
    out segment_id integer, out first_offset bigint, out next_first bigint)
language plpgsql volatile
as $$
begin
    select sp.segment_id, sp.first_offset, (
        select n.first_offset from trunkline.segment_partition n
        where n.partition_id = p.partition_id and n.segment_id > sp.segment_id order by n.segment_id limit 1)
    into segment_id, first_offset, next_first
    from trunkline.topic_partition p left join lateral (
        select x.segment_id, x.first_offset
        from trunkline.segment_partition x join trunkline.segment s on s.segment_id = x.segment_id
        where x.partition_id = p.partition_id and x.first_offset <= at_offset and s.released_at is null
        order by x.segment_id desc limit 1) sp on true
    where p.topic_id = log_place.topic_id and p.partition = log_place.partition;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    elsif at_offset is null then
        raise exception 'the offset must not be null' using errcode = 'TL001';
    elsif segment_id is null then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    end if;
end $$;
