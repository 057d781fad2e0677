-- The batches of one record from an offset on, at most `most`, as a single row; null where there are fewer than 64 of
-- them before another batch: then reading them one by one is cheaper. A batch of more than bytes_each ends the run
-- too, so its size is bounded.
-- grants: none
create function trunkline.segment_merge(
    segment_id integer, partition integer, at_offset bigint, most integer, bytes_each bigint)
returns trunkline.batch_row
language plpgsql volatile
as $$
declare
    name     constant text := 'segment_' || segment_id;
    merged   trunkline.batch_row;
    has_more boolean;    -- keys or headers
begin
    -- Most runs are as long as they may be, and the rows need to be gone through once only. Where something else
    -- stands between them the count tells, and then it is looked for.
    while most >= 64 loop
        execute format(
            'select count(*), bool_or(s.has_more), string_agg(s.payload, null), array_agg(octet_length(s.payload)),
                 array_agg(s.append_time), sum(s.byte_count)
             from (
                 select b.first_offset, b.payloads[1] as payload, b.append_time, b.byte_count,
                     b.keys is not null or b.header_counts is not null as has_more
                 from trunkline.%I b
                 where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $2 + $3
                     and b.record_count = 1 and b.byte_count <= $4
                 order by b.first_offset) s
             having max(s.first_offset) = $2 + count(*) - 1', name)
            into merged.record_count, has_more, merged.joined, merged.lengths, merged.append_times, merged.byte_count
            using partition, at_offset, most, bytes_each;
        exit when merged.record_count is not null;
        execute format(
            'select min(b.first_offset) - $2 from trunkline.%I b
             where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $2 + $3
                 and (b.record_count <> 1 or b.byte_count > $4)', name)
            into most using partition, at_offset, most, bytes_each;
    end loop;
    if merged.record_count is null or merged.record_count < 64 then
        return null;
    end if;
    merged.first_offset := at_offset;
    merged.append_time := merged.append_times[1];
    if has_more then
        execute format(
            'select case when count(b.keys) > 0 then array_agg(b.keys[1] order by b.first_offset) end,
                 case when count(b.header_counts) > 0 then
                     array_agg(coalesce(b.header_counts[1], 0) order by b.first_offset) end
             from trunkline.%I b where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3', name)
            into merged.keys, merged.header_counts using partition, at_offset, at_offset + merged.record_count;
    end if;
    if merged.header_counts is not null then
        execute format(
            'select coalesce(array_agg(u.n order by b.first_offset, u.i), ''{}''),
                 coalesce(array_agg(u.v order by b.first_offset, u.i), ''{}'')
             from trunkline.%I b cross join lateral unnest(b.header_names, b.header_values) with ordinality u(n, v, i)
             where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3', name)
            into merged.header_names, merged.header_values
            using partition, at_offset, at_offset + merged.record_count;
    end if;
    return merged;
end $$;
