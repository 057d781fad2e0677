-- A group's partitions by topic, as group_describe shows them; none where there is no such group.
-- grants: none
create function trunkline.group_positions(group_id integer)
returns table (
    topic text, partition integer, cursor bigint, "start" bigint, "end" bigint, epoch integer, member_id integer,
    member_name text, is_alive boolean, moved_at timestamptz, kind text)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    return query
        with log as materialized (
            select x.topic_id, r.partition, r."start", r."end" from (
                select distinct p.topic_id from trunkline.group_cursor c
                join trunkline.topic_partition p using (partition_id) where c.group_id = group_positions.group_id) x
            cross join lateral trunkline.log_range(x.topic_id) r)
        select t.name, p.partition, n.next_offset, log."start", log."end", n.epoch, n.member_id, m.name,
            case when n.member_id is not null then trunkline.member_is_alive(n.member_id) end,
            n.at, n.kind::text
        from trunkline.group_cursor c
        join trunkline.topic_partition p using (partition_id)
        join trunkline.topic t using (topic_id)
        join log on log.topic_id = p.topic_id and log.partition = p.partition
        cross join lateral (
            select l.next_offset, l.epoch, l.member_id, l.at, l.kind from trunkline.group_ledger l
            where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
        left join trunkline.group_member m on m.member_id = n.member_id
        where c.group_id = group_positions.group_id order by t.name, p.partition;
end $$;
