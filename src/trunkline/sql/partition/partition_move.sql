-- Moves a partition to a newer segment: says where it begins there, and closes the older one behind it.
-- The closing row (no records, first_offset = the end) is what a caller with an old snapshot collides with.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.partition_move(
    partition_id integer, partition integer, segment_id integer) returns void
language plpgsql volatile
as $$
declare
    old record;
    tip record;
begin
    select sp.segment_id, sp.first_offset, sp.time_floor, sp.transaction_id, sp.transaction_count into strict old
    from trunkline.segment_partition sp
    where sp.partition_id = partition_move.partition_id order by sp.segment_id desc limit 1;
    execute format(
        'select b.first_offset + b.record_count as first_offset, b.append_time as time_floor, b.transaction_id,
             b.transaction_count
         from trunkline.%I b where b.partition = $1 order by b.first_offset desc limit 1',
        'segment_' || old.segment_id) into tip using partition;
    if tip.first_offset is null then
        tip := old;
    end if;
    execute format(
        'insert into trunkline.%I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
             transaction_ordinal, transaction_count, byte_count, payloads)
         values ($1, $2, 0, 0, $3, 0, 0, 0, 0, ''{}'')', 'segment_' || old.segment_id)
        using tip.first_offset, tip.time_floor, partition;
    insert into trunkline.segment_partition
        (partition_id, segment_id, first_offset, time_floor, transaction_id, transaction_count)
    values (partition_move.partition_id, partition_move.segment_id, tip.first_offset, tip.time_floor,
        tip.transaction_id, tip.transaction_count);
end $$;
