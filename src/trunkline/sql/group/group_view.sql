-- What a process with members of groups has to know, a row for each of their groups (or for only_group): who else is alive (member_topics:
-- the topics that each reads, as '1,2', and which partitions at most, as '1,2@0,3'), who is not, and for each cursor its place, its epoch and which living member
-- holds it (null: it is free). is_whole is false where a topic has partitions in which the group has no cursor yet.
-- Writes nothing, and takes no transaction id. session_no is alive, as it asks.
-- errors: none
-- grants: consumer
create function trunkline.group_view(session_no integer, only_group integer default null)
returns table (
    group_id integer, member_ids integer[], member_topics text[], dead_ids integer[], cursor_ids integer[],
    topic_ids integer[], partitions integer[], epochs integer[], owner_ids integer[], is_whole boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    return query
        with member as materialized (
            select m.group_id, m.member_id, m.topic_ids, m.partitions,
                m.session_no = group_view.session_no or trunkline.member_is_alive(m.member_id) as is_alive
            from trunkline.group_member m
            where m.group_id in (
                select o.group_id from trunkline.group_member o
                where o.session_no = group_view.session_no and only_group is null
                union all select only_group)
        ), met as (
            select m.group_id,
                coalesce(array_agg(m.member_id order by m.member_id) filter (where m.is_alive), '{}') as alive,
                coalesce(array_agg(array_to_string(m.topic_ids, ',')
                    || coalesce('@' || array_to_string(m.partitions, ','), '') order by m.member_id)
                    filter (where m.is_alive), '{}') as read,
                coalesce(array_agg(m.member_id order by m.member_id) filter (where not m.is_alive), '{}') as dead
            from member m group by m.group_id
        ), held as (
            select c.group_id, array_agg(c.cursor_id order by c.cursor_id) as ids,
                array_agg(p.topic_id order by c.cursor_id) as topics,
                array_agg(p.partition order by c.cursor_id) as places,
                array_agg(n.epoch order by c.cursor_id) as epochs,
                array_agg(case when n.member_id = any (t.alive) then n.member_id end order by c.cursor_id) as owners
            from met t join trunkline.group_cursor c on c.group_id = t.group_id
            join trunkline.topic_partition p on p.partition_id = c.partition_id
            cross join lateral (
                select l.epoch, l.member_id from trunkline.group_ledger l
                where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
            group by c.group_id)
        select t.group_id, t.alive, t.read, t.dead, coalesce(h.ids, '{}'), coalesce(h.topics, '{}'),
            coalesce(h.places, '{}'), coalesce(h.epochs, '{}'), coalesce(h.owners, '{}'), not exists (
                select from member m, unnest(m.topic_ids) x(topic_id)
                join trunkline.topic_partition p on p.topic_id = x.topic_id
                where m.group_id = t.group_id and m.is_alive and not exists (
                    select from trunkline.group_cursor c
                    where c.group_id = t.group_id and c.partition_id = p.partition_id))
        from met t left join held h on h.group_id = t.group_id;
end $$;
