-- What a read asks one segment, as text, for partition $1; $2 is where it has come to. Each kind has the same
-- parameters, so that all are opened alike (segment_open), and the procedure segment_<id>_read has them as they stand.
--   batches    whole batches that begin before $3, from the one that holds $2, or ends before it, on. Arrays come as they
--              lie in the table, most of them as references; what is not returned is never fetched.
--   is_run     whether $2 is a batch of one record
--   runs       batches of one record in [$2, $3) that have at most $4 bytes and neither keys nor headers, in pieces of at
--              most 256, each a batch_row. A piece in which another batch stands between them is left out, one behind
--              which there is another ends there.
--   full_runs  the same with keys and headers. The size is what byte_count of the batches would sum up to: an array
--              of one record has 24 bytes beside it.
--   end_of_run, end_of_full_run    the first batch in [$2, $3) that is none of these, and whether it has one record and
--              at most $4 bytes
-- Few aggregates: each costs as much as reading a record does.
-- grants: none
create function trunkline.segment_query(segment_id integer, kind text) returns text
language sql immutable
as $$
select pg_catalog.replace(case kind when 'batches' then $query$
    select b.first_offset, b.record_count, b.append_time, b.batch_id, b.keys, b.payloads,
        b.header_counts, b.header_names, b.header_values,
        b.transaction_id, b.transaction_ordinal, b.transaction_count,
        null::timestamptz[], null::bytea, null::integer[], b.byte_count::bigint
    from trunkline.<segment> b
    where b.partition = $1 and b.first_offset < $3 and b.first_offset >= coalesce((
        select x.first_offset from trunkline.<segment> x
        where x.partition = $1 and x.first_offset <= $2 order by x.first_offset desc limit 1), $2)
    order by b.first_offset
$query$ when 'is_run' then $query$
    select b.record_count = 1 from trunkline.<segment> b where b.partition = $1 and b.first_offset = $2
$query$ when 'runs' then $query$
    select g.at, cardinality(m.payloads), m.times[1], null::bigint, null::bytea[], m.payloads,
        null::integer[], null::text[], null::bytea[], null::bigint, null::integer, null::integer,
        m.times, null::bytea, null::integer[], pg_column_size(m.payloads) + 24 * (cardinality(m.payloads)::bigint - 1)
    from generate_series($2, $3 - 1, 256) g(at)
    cross join lateral (
        select array_agg(b.payload) as payloads, array_agg(b.append_time) as times, max(b.first_offset) as last_offset
        from (
            select x.first_offset, x.payloads[1] as payload, x.append_time
            from trunkline.<segment> x
            where x.partition = $1 and x.first_offset >= g.at and x.first_offset < least(g.at + 256, $3)
                and x.record_count = 1 and x.byte_count <= $4 and x.keys is null and x.header_counts is null
            order by x.first_offset) b) m
    where m.last_offset = g.at + cardinality(m.payloads) - 1
$query$ when 'full_runs' then $query$
    select g.at, cardinality(m.payloads), m.times[1], null::bigint,
        case when m.keyed > 0 then m.keys end, m.payloads,
        case when m.headed > 0 then m.header_counts end, h.header_names, h.header_values,
        null::bigint, null::integer, null::integer, m.times, null::bytea, null::integer[], m.byte_count
    from generate_series($2, $3 - 1, 256) g(at)
    cross join lateral (
        select array_agg(b.payload) as payloads, array_agg(b.append_time) as times, max(b.first_offset) as last_offset,
            sum(b.byte_count) as byte_count, count(b.keys) as keyed, array_agg(b.keys[1]) as keys,
            count(b.header_counts) as headed, array_agg(coalesce(b.header_counts[1], 0)) as header_counts
        from (
            select x.first_offset, x.payloads[1] as payload, x.append_time, x.byte_count, x.keys, x.header_counts
            from trunkline.<segment> x
            where x.partition = $1 and x.first_offset >= g.at and x.first_offset < least(g.at + 256, $3)
                and x.record_count = 1 and x.byte_count <= $4
            order by x.first_offset) b) m
    left join lateral (
        select coalesce(array_agg(u.name order by x.first_offset, u.i), '{}') as header_names,
            coalesce(array_agg(u.value order by x.first_offset, u.i), '{}') as header_values
        from trunkline.<segment> x
        cross join lateral unnest(x.header_names, x.header_values) with ordinality u(name, value, i)
        where x.partition = $1 and x.first_offset >= g.at and x.first_offset <= m.last_offset) h on m.headed > 0
    where m.last_offset = g.at + cardinality(m.payloads) - 1
$query$ when 'end_of_run' then $query$
    select b.first_offset, b.record_count = 1 and b.byte_count <= $4 from trunkline.<segment> b
    where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3
        and (b.record_count <> 1 or b.byte_count > $4 or b.keys is not null or b.header_counts is not null)
    order by b.first_offset limit 1
$query$ when 'end_of_full_run' then $query$
    select b.first_offset, false from trunkline.<segment> b
    where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3
        and (b.record_count <> 1 or b.byte_count > $4)
    order by b.first_offset limit 1
$query$ end, '<segment>', 'segment_' || segment_id)
$$;
