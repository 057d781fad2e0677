-- The statement that reads batches of one record as runs, in pieces of at most 256, each a batch_row: those of partition
-- $1 in [$2, $3) that have at most $4 bytes. With has_more also those that have keys or headers. A piece in which
-- another batch stands between them is left out, one behind which there is another ends there.
-- Few aggregates: each costs as much as reading a record does. The size is what byte_count of the batches would sum up
-- to: an array of one record has 24 bytes beside it.
-- grants: none
create function trunkline.segment_merge(segment_id integer, has_more boolean) returns text
language sql immutable
as $$
select pg_catalog.format(case when has_more then $query$
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
            from trunkline.%1$I x
            where x.partition = $1 and x.first_offset >= g.at and x.first_offset < least(g.at + 256, $3)
                and x.record_count = 1 and x.byte_count <= $4
            order by x.first_offset) b) m
    left join lateral (
        select coalesce(array_agg(u.name order by x.first_offset, u.i), '{}') as header_names,
            coalesce(array_agg(u.value order by x.first_offset, u.i), '{}') as header_values
        from trunkline.%1$I x
        cross join lateral unnest(x.header_names, x.header_values) with ordinality u(name, value, i)
        where x.partition = $1 and x.first_offset >= g.at and x.first_offset <= m.last_offset) h on m.headed > 0
    where m.last_offset = g.at + cardinality(m.payloads) - 1
$query$ else $query$
    select g.at, cardinality(m.payloads), m.times[1], null::bigint, null::bytea[], m.payloads,
        null::integer[], null::text[], null::bytea[], null::bigint, null::integer, null::integer,
        m.times, null::bytea, null::integer[], pg_column_size(m.payloads) + 24 * (cardinality(m.payloads)::bigint - 1)
    from generate_series($2, $3 - 1, 256) g(at)
    cross join lateral (
        select array_agg(b.payload) as payloads, array_agg(b.append_time) as times, max(b.first_offset) as last_offset
        from (
            select x.first_offset, x.payloads[1] as payload, x.append_time
            from trunkline.%1$I x
            where x.partition = $1 and x.first_offset >= g.at and x.first_offset < least(g.at + 256, $3)
                and x.record_count = 1 and x.byte_count <= $4 and x.keys is null and x.header_counts is null
            order by x.first_offset) b) m
    where m.last_offset = g.at + cardinality(m.payloads) - 1
$query$ end, 'segment_' || segment_id)
$$;
