-- What the next batch of a partition has to know of the last one, in the segment where the partition is written.
-- locks: none; the caller holds the partition's lock since an earlier statement
-- grants: none
create function trunkline.partition_tip(partition_id integer, segment_id integer,
    out partition integer, out next_offset bigint, out append_time timestamptz, out transaction_id bigint,
    out transaction_count integer)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    select p.partition, sp.first_offset, sp.time_floor, sp.transaction_id, sp.transaction_count
    into strict partition, next_offset, append_time, transaction_id, transaction_count
    from trunkline.topic_partition p join trunkline.segment_partition sp on sp.partition_id = p.partition_id
    where p.partition_id = partition_tip.partition_id and sp.segment_id = partition_tip.segment_id;
    execute format(
        'select $1, coalesce(b.first_offset + b.record_count, $2), coalesce(b.append_time, $3),
             coalesce(b.transaction_id, $4), coalesce(b.transaction_count, $5)
         from (values (1)) one left join lateral (
             select x.* from trunkline.%I x where x.partition = $1 order by x.first_offset desc limit 1) b on true',
        'segment_' || segment_id)
        into partition, next_offset, append_time, transaction_id, transaction_count
        using partition, next_offset, append_time, transaction_id, transaction_count;
end $$;
