-- The keys of a group that wait for a redrive, by topic, partition and first offset: how many records wait, of which
-- failed_count have failed themselves and the others stand behind them, why, and since when a redrive is due (null: it
-- was not asked for).
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.parked_list(name text)
returns table (
    topic text, partition integer, key bytea, group_key bytea, first_offset bigint, record_count bigint,
    failed_count bigint, attempts integer, reason text, blocked_at timestamptz, due_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.group_id_of(name);
begin
    return query
        select t.name, p.partition, b.key, b.group_key, r.first, r.records, r.failed, b.attempts, b.reason,
            b.blocked_at, b.due_at
        from trunkline.group_cursor c
        join trunkline.topic_partition p using (partition_id)
        join trunkline.topic t using (topic_id)
        join trunkline.group_blocked b on b.cursor_id = c.cursor_id
        cross join lateral (
            select min(x.record_offset) as first, count(*) as records, count(*) filter (where x.behind is null) as failed
            from trunkline.group_parked x where x.cursor_id = b.cursor_id and x.key_id = b.key_id) r
        where c.group_id = id order by t.name, p.partition, r.first;
end $$;
