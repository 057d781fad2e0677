-- Every cursor of a group: its partition, and the next offset to be read.
-- errors: none
-- grants: consumer
create function trunkline.group_cursors(group_id integer)
returns table (cursor_id integer, topic_id integer, partition integer, next_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    return query
        select c.cursor_id, p.topic_id, p.partition, n.next_offset
        from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
        cross join lateral (select l.next_offset from trunkline.group_ledger l
            where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
        where c.group_id = group_cursors.group_id order by c.cursor_id;
end $$;
