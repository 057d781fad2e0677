-- Refuses a batch whose keys were routed by another partition count, or that is over a limit of its topic. Called
-- where a cheap look could not rule it out.
-- errors: TL004 TL012
-- grants: none
create function trunkline.log_check_limits(
    partition_id integer, expected_partitions integer, keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[]) returns void
language plpgsql volatile
as $$
declare
    topic   record;
    largest constant bigint := (select max(octet_length(p)) from unnest(payloads) p);
    total   constant bigint := (select sum(octet_length(p)::bigint) from unnest(payloads) p);
    fault   text;
begin
    select t.* into topic from trunkline.topic t join trunkline.topic_partition p using (topic_id)
    where p.partition_id = log_check_limits.partition_id;
    if topic.partitions <> expected_partitions then
        raise exception 'topic % has % partitions now, not %', topic.name, topic.partitions, expected_partitions
            using errcode = 'TL012', hint = 'look the topic up again and route the keys anew';
    elsif largest > topic.record_bytes_max then
        fault := format('a record of %s bytes is over record_bytes_max = %s', largest, topic.record_bytes_max);
    elsif total > topic.batch_bytes_max then
        fault := format('a batch of %s bytes is over batch_bytes_max = %s', total, topic.batch_bytes_max);
    elsif cardinality(payloads) > topic.batch_records_max then
        fault := format('a batch of %s records is over batch_records_max = %s',
            cardinality(payloads), topic.batch_records_max);
    elsif (select max(octet_length(k)) from unnest(keys) k) > topic.key_bytes_max then
        fault := format('a key of %s bytes is over key_bytes_max = %s',
            (select max(octet_length(k)) from unnest(keys) k), topic.key_bytes_max);
    elsif (select max(n) from unnest(header_counts) n) > topic.header_count_max then
        fault := format('a record with %s headers is over header_count_max = %s',
            (select max(n) from unnest(header_counts) n), topic.header_count_max);
    elsif (select max(greatest(octet_length(n), octet_length(v)))
            from unnest(header_names, header_values) h(n, v)) > topic.header_bytes_max then
        fault := format('a header of %s bytes is over header_bytes_max = %s',
            (select max(greatest(octet_length(n), octet_length(v)))
             from unnest(header_names, header_values) h(n, v)), topic.header_bytes_max);
    end if;
    if fault is not null then
        raise exception '%', fault using errcode = 'TL004', hint = 'nothing was written; split it, or alter the topic';
    end if;
end $$;
