-- Looks at the next batches of one partition in one segment, at most at_once, without touching their records:
-- how many were seen, whether they are whole (first_offset, next_offset, records), and how many fit into the
-- limits (batches, last_batch, fit_next, fit_bytes). The batch that holds `at_offset` counts as the first; with
-- always_one it fits whatever its size.
-- errors: 42P01 where the segment has been dropped
-- grants: none
create function trunkline.segment_cut(
    segment_id integer, partition integer, at_offset bigint, max_records bigint, bytes_max bigint,
    at_once integer, always_one boolean,
    out seen bigint, out first_offset bigint, out next_offset bigint, out records bigint,
    out batches bigint, out last_batch bigint, out fit_next bigint, out fit_bytes bigint)
language plpgsql volatile
as $$
begin
    execute format(
        'select count(*), min(w.first_offset), max(w.first_offset + w.record_count), sum(w.record_count),
             count(*) filter (where w.fits), max(w.first_offset) filter (where w.fits),
             max(w.first_offset + w.record_count) filter (where w.fits), sum(w.byte_count) filter (where w.fits)
         from (
             select n.*, (n.first_offset < $2 + $3 and sum(n.byte_count) over o <= $4)
                 or ($6 and row_number() over o = 1) as fits
             from (
                 select b.first_offset, b.record_count, b.byte_count from trunkline.%1$I b
                 where b.partition = $1 and b.record_count > 0 and b.first_offset >= coalesce((
                     select case when x.first_offset + x.record_count > $2 then x.first_offset else $2 end
                     from trunkline.%1$I x
                     where x.partition = $1 and x.first_offset <= $2 order by x.first_offset desc limit 1), $2)
                 order by b.first_offset limit $5) n
             window o as (order by n.first_offset)) w', 'segment_' || segment_id)
        into seen, first_offset, next_offset, records, batches, last_batch, fit_next, fit_bytes
        using partition, at_offset, max_records, bytes_max, at_once, always_one;
end $$;
