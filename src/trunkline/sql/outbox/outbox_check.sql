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
    select p.partition_id into part from trunkline.topic_partition p
    where p.topic_id = outbox_check.topic_id and p.partition = outbox_check.partition;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    end if;
    perform trunkline.log_check_shape(record_count, keys, payloads, header_counts, header_names, header_values,
        null, null, null);
    perform trunkline.log_check_limits(part.partition_id, expected_partitions, keys, payloads, header_counts,
        header_names, header_values);
    return part.partition_id;
end $$;
