-- Appends what a transaction has put down for one partition, from one ordinal to another, as one batch. Nothing where
-- there is no partition.
-- locks: the partition, until the transaction ends
-- errors: those of log_append
-- grants: none
create function trunkline.outbox_append(transaction_id bigint, partition_id integer, first bigint, last bigint)
returns void
language plpgsql volatile
as $$
declare
    place record;
    batch record;
begin
    if partition_id is null then
        return;
    end if;
    select p.topic_id, p.partition into place
    from trunkline.topic_partition p where p.partition_id = outbox_append.partition_id;
    if not found then
        raise exception 'a topic that this transaction has published to was deleted' using errcode = 'TL002',
            hint = 'create it with topic_create or `trunkline topic create`, and run the transaction again';
    end if;
    if first = last then
        select s.expected_partitions, s.record_count, s.keys, s.payloads, s.header_counts, s.header_names,
            s.header_values
        into strict batch from trunkline.outbox_stage s
        where s.transaction_id = outbox_append.transaction_id and s.partition_id = outbox_append.partition_id
            and s.ordinal = first;
    else
        select min(s.expected_partitions) as expected_partitions, sum(s.record_count)::integer as record_count,
            case when bool_or(s.keys is not null) then (
                select array_agg(u.v order by k.ordinal, u.n) from trunkline.outbox_stage k,
                    unnest(coalesce(k.keys, array_fill(null::bytea, array[k.record_count]))) with ordinality u(v, n)
                where k.transaction_id = outbox_append.transaction_id and k.partition_id = outbox_append.partition_id
                    and k.ordinal between first and last) end as keys,
            (select array_agg(u.v order by k.ordinal, u.n) from trunkline.outbox_stage k,
                    unnest(k.payloads) with ordinality u(v, n)
                where k.transaction_id = outbox_append.transaction_id and k.partition_id = outbox_append.partition_id
                    and k.ordinal between first and last) as payloads,
            case when bool_or(s.header_counts is not null) then (
                select array_agg(u.v order by k.ordinal, u.n) from trunkline.outbox_stage k,
                    unnest(coalesce(k.header_counts, array_fill(0, array[k.record_count]))) with ordinality u(v, n)
                where k.transaction_id = outbox_append.transaction_id and k.partition_id = outbox_append.partition_id
                    and k.ordinal between first and last) end as header_counts,
            case when bool_or(s.header_counts is not null) then coalesce((
                select array_agg(u.v order by k.ordinal, u.n) from trunkline.outbox_stage k,
                    unnest(k.header_names) with ordinality u(v, n)
                where k.transaction_id = outbox_append.transaction_id and k.partition_id = outbox_append.partition_id
                    and k.ordinal between first and last), '{}') end as header_names,
            case when bool_or(s.header_counts is not null) then coalesce((
                select array_agg(u.v order by k.ordinal, u.n) from trunkline.outbox_stage k,
                    unnest(k.header_values) with ordinality u(v, n)
                where k.transaction_id = outbox_append.transaction_id and k.partition_id = outbox_append.partition_id
                    and k.ordinal between first and last), '{}') end as header_values
        into strict batch from trunkline.outbox_stage s
        where s.transaction_id = outbox_append.transaction_id and s.partition_id = outbox_append.partition_id
            and s.ordinal between first and last;
    end if;
    perform trunkline.log_append(place.topic_id, batch.expected_partitions, array[place.partition],
        array[batch.record_count], batch.keys, batch.payloads, batch.header_counts, batch.header_names,
        batch.header_values, null, null, null);
end $$;
