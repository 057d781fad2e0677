-- Writes a batch whose arguments have been checked, and whose partition is in the segment: the last step of
-- log_append_closely. It has to do the same as the end of segment_<id>_append, which does it with cached plans.
-- Returns what that returns.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.segment_write(
    segment_id integer, partition_id integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_no bigint, sequence integer)
returns bigint[]
language plpgsql volatile
as $$
declare
    name constant text := 'segment_' || segment_id;
    tip  record := trunkline.partition_tip(partition_id, segment_id);
    xid  constant bigint := pg_current_xact_id()::text::bigint;
begin
    if tip.transaction_id is distinct from xid then
        tip.transaction_count := 0;
    end if;
    execute format(
        'insert into trunkline.%I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
             transaction_ordinal, transaction_count, byte_count, producer_no, producer_sequence,
             keys, payloads, header_counts, header_names, header_values)
         values ($1, greatest($2, trunkline.clock_now()), trunkline.random_bigint(), $3, $4, $5, $6, $6 + $5,
             pg_column_size($10) + coalesce(pg_column_size($9), 0) + coalesce(pg_column_size($12), 0)
                 + coalesce(pg_column_size($13), 0),
             $7, $8, $9, $10, $11, $12, $13)', name)
        using tip.next_offset, tip.append_time, xid, tip.partition, record_count, tip.transaction_count,
            producer_no, sequence, keys, payloads, header_counts, header_names, header_values;
    perform trunkline.partition_ring(t.topic_id, tip.partition)
    from trunkline.segment s join trunkline.topic t using (topic_id)
    where s.segment_id = segment_write.segment_id and t.notify_in_commit;
    return array[tip.next_offset, segment_id, trunkline.segment_is_full(segment_id)::integer];
end $$;
