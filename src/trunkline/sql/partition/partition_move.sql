-- Moves a partition to a newer segment: closes the older one behind it, and says where it begins there.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.partition_move(
    partition_id integer, partition integer, segment_id integer) returns void
language plpgsql volatile
as $$
begin
    insert into trunkline.segment_partition
        (partition_id, segment_id, first_offset, time_floor, transaction_id, transaction_count)
    select partition_move.partition_id, partition_move.segment_id, c.first_offset, c.time_floor, c.transaction_id,
        c.transaction_count
    from trunkline.partition_close(partition_move.partition_id, partition_move.partition) c;
end $$;
