-- Takes what a transaction has put down for one partition, from one ordinal to another, from the stage, and appends it
-- as one batch. Nothing where there is no partition.
-- locks: the partition, until the transaction ends
-- errors: those of log_append
-- grants: none
create function trunkline.outbox_append(transaction_id bigint, partition_id integer, first bigint, last bigint)
returns void
language plpgsql volatile
as $$
declare
    batch record;
begin
    if partition_id is null then
        return;
    end if;
    -- Taken from the stage before the partition is locked: nobody waits for that.
    if first = last then
        delete from trunkline.outbox_stage s
        where s.transaction_id = outbox_append.transaction_id and s.partition_id = outbox_append.partition_id
            and s.ordinal = first
        returning s.expected_partitions, s.record_count, s.keys, s.payloads, s.header_counts, s.header_names,
            s.header_values into strict batch;
    else
        with stage as (
            delete from trunkline.outbox_stage s
            where s.transaction_id = outbox_append.transaction_id and s.partition_id = outbox_append.partition_id
                and s.ordinal between first and last
            returning *),
        shape as (
            select min(s.expected_partitions) as expected_partitions, sum(s.record_count)::integer as record_count,
                bool_or(s.keys is not null) as has_keys, bool_or(s.header_counts is not null) as has_headers
            from stage s)
        select g.expected_partitions, g.record_count,
            case when g.has_keys then (select array_agg(u.v order by s.ordinal, u.n) from stage s,
                unnest(coalesce(s.keys, array_fill(null::bytea, array[s.record_count]))) with ordinality u(v, n)) end as keys,
            (select array_agg(u.v order by s.ordinal, u.n)
                from stage s, unnest(s.payloads) with ordinality u(v, n)) as payloads,
            case when g.has_headers then (select array_agg(u.v order by s.ordinal, u.n) from stage s,
                unnest(coalesce(s.header_counts, array_fill(0, array[s.record_count]))) with ordinality u(v, n))
                end as header_counts,
            case when g.has_headers then coalesce((select array_agg(u.v order by s.ordinal, u.n)
                from stage s, unnest(s.header_names) with ordinality u(v, n)), '{}') end as header_names,
            case when g.has_headers then coalesce((select array_agg(u.v order by s.ordinal, u.n)
                from stage s, unnest(s.header_values) with ordinality u(v, n)), '{}') end as header_values
        into strict batch from shape g;
    end if;
    perform trunkline.log_append_part(partition_id, batch.expected_partitions, batch.record_count, batch.keys,
        batch.payloads, batch.header_counts, batch.header_names, batch.header_values, null, null, null);
end $$;
