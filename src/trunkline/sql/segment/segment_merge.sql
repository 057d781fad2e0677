-- The batches of one record from an offset on, at most `most`, as a single row; null where there is no such batch, or
-- something else stands between them. A batch of more than bytes_each ends the run, so its size is bounded.
-- grants: none
create function trunkline.segment_merge(
    segment_id integer, partition integer, at_offset bigint, most bigint, bytes_each bigint)
returns trunkline.batch_row
language plpgsql volatile
as $$
declare
    name   constant text := 'segment_' || segment_id;
    run    record;
    merged trunkline.batch_row;
begin
    execute format(
        'select bool_or(s.has_keys) as has_keys, bool_or(s.has_headers) as has_headers, count(*)::integer as records,
             min(s.append_time) as append_time, string_agg(s.payload, null) as joined,
             array_agg(octet_length(s.payload)) as lengths, array_agg(s.append_time) as append_times,
             sum(s.byte_count) as byte_count
         from (
             select b.first_offset, b.keys is not null as has_keys, b.header_counts is not null as has_headers,
                 b.payloads[1] as payload, b.append_time, b.byte_count
             from trunkline.%I b
             where b.partition = $1 and b.first_offset >= $2 and b.record_count = 1 and b.byte_count <= $4
             order by b.first_offset limit $3) s
         having max(s.first_offset) - $2 + 1 = count(*)', name) into run
        using partition, at_offset, most, bytes_each;
    if run.records is null then
        return null;
    end if;
    merged.first_offset := at_offset;
    merged.record_count := run.records;
    merged.append_time := run.append_time;
    merged.joined := run.joined;
    merged.lengths := run.lengths;
    merged.append_times := run.append_times;
    merged.byte_count := run.byte_count;
    if run.has_keys then
        execute format(
            'select array(select b.keys[1] from trunkline.%I b where b.partition = $1
                 and b.first_offset >= $2 and b.first_offset < $3 order by b.first_offset)', name)
            into merged.keys using partition, at_offset, at_offset + run.records;
    end if;
    if run.has_headers then
        execute format(
            'select array(select coalesce(b.header_counts[1], 0) from trunkline.%1$I b where b.partition = $1
                     and b.first_offset >= $2 and b.first_offset < $3 order by b.first_offset),
                 array(select u.n from trunkline.%1$I b cross join lateral unnest(b.header_names) with ordinality u(n, i)
                     where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3
                     order by b.first_offset, u.i),
                 array(select u.v from trunkline.%1$I b cross join lateral unnest(b.header_values) with ordinality u(v, i)
                     where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3
                     order by b.first_offset, u.i)', name)
            into merged.header_counts, merged.header_names, merged.header_values
            using partition, at_offset, at_offset + run.records;
    end if;
    return merged;
end $$;
