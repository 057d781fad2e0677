-- The log of each partition of a topic as the half-open range ["start", "end"), or of the given partition.
-- A subtraction and an index step a partition, never a scan; writes nothing.
-- errors: TL002
-- grants: producer, consumer, admin
create function trunkline.log_range(topic_id integer, only_partition integer default null)
returns table (partition integer, "start" bigint, "end" bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    place record;
    any_found boolean := false;
begin
    for place in
        select last.segment_id, array_agg(p.partition) as partitions, array_agg(first.first_offset) as starts,
            array_agg(last.first_offset) as floors
        from trunkline.topic_partition p, lateral (
            select sp.first_offset from trunkline.segment_partition sp join trunkline.segment s using (segment_id)
            where sp.partition_id = p.partition_id and s.released_at is null order by sp.segment_id limit 1) first,
        lateral (
            select sp.segment_id, sp.first_offset from trunkline.segment_partition sp
            where sp.partition_id = p.partition_id order by sp.segment_id desc limit 1) last
        where p.topic_id = log_range.topic_id and (only_partition is null or p.partition = only_partition)
        group by last.segment_id
    loop
        any_found := true;
        return query execute format(
            'select u.p, u.s, coalesce(x.next_offset, u.f)
             from unnest($1, $2, $3) u(p, s, f) left join lateral (
                 select b.first_offset + b.record_count as next_offset from trunkline.%I b
                 where b.partition = u.p order by b.first_offset desc limit 1) x on true
             order by 1', 'segment_' || place.segment_id)
            using place.partitions, place.starts, place.floors;
    end loop;
    if not any_found then
        perform trunkline.topic_raise_missing(topic_id, only_partition);
    end if;
end $$;
