-- Closes a partition in the segment where it is written, so that nothing more can be appended to it there. The closing
-- row (no records, first_offset = the end) is what an append with an old snapshot collides with, and what one that
-- waited for the lock finds. Returns where the next batch will stand, and what it has to know of the one before.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.partition_close(partition_id integer, partition integer,
    out first_offset bigint, out time_floor timestamptz, out transaction_id bigint, out transaction_count integer)
language plpgsql volatile
as $$
declare
    old record;
begin
    select sp.segment_id, sp.first_offset, sp.time_floor, sp.transaction_id, sp.transaction_count into strict old
    from trunkline.segment_partition sp
    where sp.partition_id = partition_close.partition_id order by sp.segment_id desc limit 1;
    if to_regclass('trunkline.segment_' || old.segment_id) is null then
        return;    -- Damaged; a topic can be deleted all the same.
    end if;
    execute format(
        'select b.first_offset + b.record_count, b.append_time, b.transaction_id, b.transaction_count
         from trunkline.%I b where b.partition = $1 order by b.first_offset desc limit 1',
        'segment_' || old.segment_id) into first_offset, time_floor, transaction_id, transaction_count
        using partition;
    if first_offset is null then
        first_offset := old.first_offset;
        time_floor := old.time_floor;
        transaction_id := old.transaction_id;
        transaction_count := old.transaction_count;
    end if;
    execute format(
        'insert into trunkline.%I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
             transaction_ordinal, transaction_count, byte_count, payloads)
         values ($1, $2, 0, 0, $3, 0, 0, 0, 0, ''{}'')', 'segment_' || old.segment_id)
        using first_offset, time_floor, partition;
end $$;
