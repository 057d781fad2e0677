-- A first look at one partition in one segment: where the batch begins that holds an offset (or the offset itself,
-- where none does), whether the next batches are many, small, and of one record each, and how many bytes such a
-- batch will hardly exceed.
-- errors: 42P01 where the segment has been dropped
-- grants: none
create function trunkline.segment_look(
    segment_id integer, partition integer, at_offset bigint, out first_offset bigint, out are_single boolean,
    out bytes_each bigint)
language plpgsql volatile
as $$
begin
    execute format(
        'select coalesce(min(s.first_offset), $2),
             count(*) = 16 and max(s.record_count) = 1 and sum(s.byte_count) < 32768,
             greatest(max(s.byte_count) * 2, 512) from (
             select b.first_offset, b.record_count, b.byte_count from trunkline.%1$I b
             where b.partition = $1 and b.record_count > 0 and b.first_offset >= coalesce((
                 select case when x.first_offset + x.record_count > $2 then x.first_offset else $2 end
                 from trunkline.%1$I x
                 where x.partition = $1 and x.first_offset <= $2 order by x.first_offset desc limit 1), $2)
             order by b.first_offset limit 16) s', 'segment_' || segment_id)
        into first_offset, are_single, bytes_each using partition, at_offset;
end $$;
