-- What segment_<id>_append leaves to be looked at closely: checks every argument, says what is wrong, moves the
-- partition to the open segment, registers the producer, finds a repeated sequence; then calls the function of the
-- open segment again.
-- A caller in REPEATABLE READ or SERIALIZABLE whose snapshot is older than the tip runs into a key that it cannot
-- see; that becomes a serialization failure that says what to do.
-- locks: the partition, until the transaction ends
-- errors: TL001 TL002 TL004 TL007 TL008 TL009 TL012, 40001, 55P03
-- grants: none
create function trunkline.log_append_closely(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer,
    out first_offset bigint, out open_segment_id integer, out is_full boolean)
language plpgsql volatile
as $$
declare
    known_last integer;
begin
    perform trunkline.log_check_shape(record_count, keys, payloads, header_counts, header_names, header_values,
        producer_id, producer_epoch, sequence);
    perform trunkline.log_guard_commit();
    perform trunkline.lock_partition(partition_id);
    begin
        if expected_partitions is not null and current_setting('transaction_isolation') <> 'read committed' then
            -- An old snapshot does not see that partitions were added; locking the row does.
            perform from trunkline.topic_partition p join trunkline.topic t using (topic_id)
            where p.partition_id = log_append_closely.partition_id for share of t;
        end if;
        open_segment_id := trunkline.partition_prepare(partition_id);
        if producer_id is not null then
            -- Before any other refusal: what is in the log already has its place, whatever was changed since.
            select r.first_offset, r.known_last into first_offset, known_last
            from trunkline.producer_resolve(log_append_closely.partition_id, log_append_closely.open_segment_id,
                log_append_closely.producer_id, producer_epoch, sequence, log_append_closely.record_count) r;
            if first_offset is not null then
                is_full := false;
                return;
            end if;
        end if;
        perform trunkline.log_check_limits(partition_id, expected_partitions, keys, payloads, header_counts,
            header_names, header_values);
        execute format('select * from trunkline.%I($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, true)',
                'segment_' || open_segment_id || '_append')
            into first_offset, open_segment_id, is_full
            using partition_id, expected_partitions, record_count, keys, payloads, header_counts, header_names,
                header_values, producer_id, producer_epoch, sequence, known_last;
    exception when unique_violation or serialization_failure or undefined_table or undefined_function then
        if current_setting('transaction_isolation') = 'read committed' then
            raise;
        end if;
        raise exception 'the partition was written after this transaction''s snapshot'
            using errcode = '40001',
            hint = 'run the transaction again, or publish in READ COMMITTED, which does not meet this';
    end;
end $$;
