-- Refuses records that could not be appended to a partition, before the transaction goes on: at its commit it would be
-- too late to do something about it. Returns the partition's id.
-- errors: TL001 TL002 TL004 TL012
-- grants: none
create function trunkline.outbox_check(
    topic_id integer, expected_partitions integer, partition integer, record_count integer, keys bytea[],
    payloads bytea[], header_counts integer[], header_names text[], header_values bytea[])
returns integer
language plpgsql volatile
as $$
declare
    part record;
begin
    select p.partition_id, t.partitions, t.record_bytes_max, t.batch_bytes_max, t.batch_records_max, t.key_bytes_max
    into part
    from trunkline.topic t join trunkline.topic_partition p using (topic_id)
    where t.topic_id = outbox_check.topic_id and p.partition = outbox_check.partition;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    end if;
    if (record_count = 1 and cardinality(payloads) = 1 and array_lower(payloads, 1) = 1 and payloads[1] is not null
        and (keys is null or (cardinality(keys) = 1 and array_lower(keys, 1) = 1))
        and header_counts is null and header_names is null and header_values is null
        and (expected_partitions is null or expected_partitions = part.partitions)
        and pg_column_size(payloads) <= least(part.record_bytes_max, part.batch_bytes_max)
        and (keys is null or pg_column_size(keys) <= part.key_bytes_max)) is not true then
        perform trunkline.log_check_shape(record_count, keys, payloads, header_counts, header_names, header_values,
            null, null, null);
        perform trunkline.log_check_limits(part.partition_id, expected_partitions, keys, payloads, header_counts,
            header_names, header_values);
    end if;
    return part.partition_id;
end $$;
