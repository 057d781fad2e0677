-- Whether every group and every queue of a topic has passed what a segment of it holds, and there is at least one.
-- grants: none
create function trunkline.segment_is_consumed(segment_id integer) returns boolean
language sql volatile
as $$
    select bool_and(coalesce(r.next_offset >= following.first_offset, false))
    from trunkline.segment_partition sp cross join lateral (
        select n.first_offset from trunkline.segment_partition n
        where n.partition_id = sp.partition_id and n.segment_id > sp.segment_id order by n.segment_id limit 1) following
    cross join lateral (
        select (select x.next_offset from trunkline.group_ledger x
            where x.cursor_id = c.cursor_id order by x.seq desc limit 1) as next_offset
        from trunkline.group_cursor c where c.partition_id = sp.partition_id
        union all
        select q.floor
        from trunkline.queue_part p cross join lateral trunkline.queue_positions(p.queue_id) q
        where p.partition_id = sp.partition_id and q.partition_id = sp.partition_id) r
    where sp.segment_id = segment_is_consumed.segment_id
$$;
