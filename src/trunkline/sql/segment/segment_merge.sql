-- The batches of one partition in one segment from first_batch to last_batch as a single row of log_read: their
-- records one after the other. Batches of one record, of which a log that is published to one by one consists, are
-- taken without unnesting.
-- errors: TL011 where the records are not as many as the offsets
-- grants: none
create function trunkline.segment_merge(
    segment_id integer, partition integer, first_batch bigint, last_batch bigint, batches bigint, next_offset bigint)
returns table (
    first_offset bigint, record_count integer, append_time timestamptz, batch_id bigint,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    transaction_id bigint, transaction_ordinal integer, transaction_count integer,
    append_times timestamptz[], transaction_ids bigint[])
language plpgsql volatile
as $$
declare
    singles  constant boolean := batches = next_offset - first_batch;
    has      record;
begin
    if singles then
        execute format(
            'select bool_or(s.keys is not null) as keys, bool_or(s.header_counts is not null) as headers,
                 min(s.append_time) as append_time, array_agg(s.payloads[1]) as payloads,
                 array_agg(s.append_time) as append_times, array_agg(s.transaction_id) as transaction_ids
             from (select b.keys, b.header_counts, b.payloads, b.append_time, b.transaction_id from trunkline.%I b
                 where b.partition = $1 and b.first_offset between $2 and $3 and b.record_count > 0
                 order by b.first_offset) s', 'segment_' || segment_id)
            into has using partition, first_batch, last_batch;
    else
        execute format(
            'select bool_or(s.has_keys) as keys, bool_or(s.has_headers) as headers,
                 min(s.append_time) as append_time, array_agg(s.payload) as payloads,
                 array_agg(s.append_time) as append_times, array_agg(s.transaction_id) as transaction_ids
             from (select b.keys is not null as has_keys, b.header_counts is not null as has_headers,
                     p.payload, b.append_time, b.transaction_id
                 from trunkline.%I b cross join lateral unnest(b.payloads) with ordinality p(payload, n)
                 where b.partition = $1 and b.first_offset between $2 and $3 and b.record_count > 0
                 order by b.first_offset, p.n) s', 'segment_' || segment_id)
            into has using partition, first_batch, last_batch;
    end if;
    first_offset := first_batch;
    record_count := cardinality(has.payloads);
    append_time := has.append_time;
    payloads := has.payloads;
    append_times := has.append_times;
    transaction_ids := has.transaction_ids;
    if has.keys then
        execute format(
            'select array_agg(s.key) from (
                 select k.key from trunkline.%I b cross join lateral unnest(
                     coalesce(b.keys, array_fill(null::bytea, array[b.record_count]))) with ordinality k(key, n)
                 where b.partition = $1 and b.first_offset between $2 and $3 and b.record_count > 0
                 order by b.first_offset, k.n) s', 'segment_' || segment_id)
            into keys using partition, first_batch, last_batch;
    end if;
    if has.headers then
        execute format(
            'select array_agg(s.count) from (
                 select c.count from trunkline.%I b cross join lateral unnest(
                     coalesce(b.header_counts, array_fill(0, array[b.record_count]))) with ordinality c(count, n)
                 where b.partition = $1 and b.first_offset between $2 and $3 and b.record_count > 0
                 order by b.first_offset, c.n) s', 'segment_' || segment_id)
            into header_counts using partition, first_batch, last_batch;
        execute format(
            'select array_agg(s.name), array_agg(s.value) from (
                 select h.name, h.value from trunkline.%I b
                 cross join lateral unnest(b.header_names, b.header_values) with ordinality h(name, value, n)
                 where b.partition = $1 and b.first_offset between $2 and $3
                 order by b.first_offset, h.n) s', 'segment_' || segment_id)
            into header_names, header_values using partition, first_batch, last_batch;
        header_names := coalesce(header_names, '{}');
        header_values := coalesce(header_values, '{}');
    end if;
    if record_count is distinct from next_offset - first_batch
        or cardinality(keys) <> record_count or cardinality(header_counts) <> record_count then
        raise exception 'segment % gave % records of partition %, not %', segment_id, record_count, partition,
            next_offset - first_batch using errcode = 'TL011', hint = 'this must never happen; please report it';
    end if;
    return next;
end $$;
