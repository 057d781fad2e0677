-- The members of a group: when each joined, which topics it reads, whether it is alive, how many partitions it holds.
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.member_list(group_name text)
returns table (
    member_id integer, name text, topics text[], joined_at timestamptz, is_alive boolean, partitions integer,
    by_session boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    id constant integer := trunkline.group_id_of(group_name);
begin
    return query
        select m.member_id, m.name,
            array(select t.name from trunkline.topic t where t.topic_id = any (m.topic_ids) order by t.name),
            m.joined_at, trunkline.member_is_alive(m.member_id), (
                select count(*)::integer from trunkline.group_cursor c cross join lateral (
                    select l.member_id from trunkline.group_ledger l
                    where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
                where c.group_id = m.group_id and n.member_id = m.member_id),
            m.timeout_s is null
        from trunkline.group_member m where m.group_id = id order by m.member_id;
end $$;
