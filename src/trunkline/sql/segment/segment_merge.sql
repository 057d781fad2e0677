-- The batches of one record from an offset on, at most `most`, as a single row; null where there is no such batch, or
-- something else stands between them. A batch of more than 8 KiB ends the run.
-- grants: none
create function trunkline.segment_merge(segment_id integer, partition integer, at_offset bigint, most bigint)
returns trunkline.batch_row
language plpgsql volatile
as $$
declare
    merged trunkline.batch_row;
begin
    execute format(
        'select $2, count(*)::integer, min(s.append_time), null::bigint,
             case when bool_or(s.has_keys) then array(
                 select h.keys[1] from trunkline.%1$I h
                 where h.partition = $1 and h.first_offset >= $2 and h.first_offset <= max(s.first_offset)
                 order by h.first_offset) end,
             array_agg(s.payload),
             case when bool_or(s.has_headers) then array(
                 select coalesce(h.header_counts[1], 0) from trunkline.%1$I h
                 where h.partition = $1 and h.first_offset >= $2 and h.first_offset <= max(s.first_offset)
                 order by h.first_offset) end,
             case when bool_or(s.has_headers) then array(
                 select n from trunkline.%1$I h cross join lateral unnest(h.header_names) with ordinality u(n, i)
                 where h.partition = $1 and h.first_offset >= $2 and h.first_offset <= max(s.first_offset)
                 order by h.first_offset, i) end,
             case when bool_or(s.has_headers) then array(
                 select v from trunkline.%1$I h cross join lateral unnest(h.header_values) with ordinality u(v, i)
                 where h.partition = $1 and h.first_offset >= $2 and h.first_offset <= max(s.first_offset)
                 order by h.first_offset, i) end,
             null::bigint, null::integer, null::integer, array_agg(s.append_time), sum(s.byte_count)
         from (
             select b.first_offset, b.keys is not null as has_keys, b.header_counts is not null as has_headers,
                 b.payloads[1] as payload, b.append_time, b.byte_count
             from trunkline.%1$I b
             where b.partition = $1 and b.first_offset >= $2 and b.record_count = 1 and b.byte_count <= 8192
             order by b.first_offset limit $3) s
         having max(s.first_offset) - $2 + 1 = count(*)', 'segment_' || segment_id)
        into merged using partition, at_offset, most;
    return merged;
end $$;
