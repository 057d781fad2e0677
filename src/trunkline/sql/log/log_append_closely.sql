-- What segment_<id>_append leaves to be looked at closely: checks every argument, says what is wrong, moves the
-- partition to the open segment, registers the producer, finds a repeated sequence; then writes the batch.
-- A caller in REPEATABLE READ or SERIALIZABLE whose snapshot is older than the tip runs into a key that it cannot
-- see; that becomes a serialization failure that says what to do.
-- locks: the partition, until the transaction ends
-- errors: TL001 TL002 TL004 TL007 TL008 TL009 TL012, 40001, 55P03
-- grants: none
create function trunkline.log_append_closely(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer)
returns bigint[]
language plpgsql volatile
as $$
declare
    segment_id   integer;
    first_offset bigint;
begin
    perform trunkline.log_check_shape(record_count, keys, payloads, header_counts, header_names, header_values,
        producer_id, producer_epoch, sequence);
    perform trunkline.log_guard_commit();
    perform trunkline.lock_partition(partition_id);
    begin
        segment_id := trunkline.partition_prepare(partition_id);
        if producer_id is not null then
            -- Before any other refusal: what is in the log already has its place, whatever was changed since.
            first_offset := trunkline.producer_resolve(
                partition_id, segment_id, producer_id, producer_epoch, sequence, record_count);
            if first_offset is not null then
                return array[first_offset, segment_id, 0];
            end if;
        end if;
        perform trunkline.log_check_limits(partition_id, expected_partitions, keys, payloads, header_counts,
            header_names, header_values);
        return trunkline.segment_write(segment_id, partition_id, record_count, keys, payloads, header_counts,
            header_names, header_values, trunkline.producer_number(producer_id, partition_id, producer_epoch), sequence);
    exception when unique_violation or serialization_failure or undefined_table or undefined_function then
        if current_setting('transaction_isolation') = 'read committed' then
            raise;
        end if;
        raise exception 'the partition was written after this transaction''s snapshot'
            using errcode = '40001',
            hint = 'run the transaction again, or publish in READ COMMITTED, which does not meet this';
    end;
end $$;
