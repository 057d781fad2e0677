-- What handlers by group key have given up for a group, in one row: how many records within 30 days, the last time with
-- its place and reason (null: never), and how many keys and records wait for a redrive now.
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.failure_describe(name text)
returns table (
    failed_records bigint, blocked_keys bigint, parked_records bigint, last_topic text, last_partition integer,
    last_offset bigint, last_reason text, last_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    cursors constant integer[] := array(
        select c.cursor_id from trunkline.group_cursor c where c.group_id = trunkline.group_id_of(name));
begin
    return query
        select (select coalesce(sum(f.record_count), 0)::bigint from trunkline.group_failure f
                where f.cursor_id = any (cursors)),
            (select count(*) from trunkline.group_blocked b where b.cursor_id = any (cursors)),
            (select count(*) from trunkline.group_parked x where x.cursor_id = any (cursors)),
            last.name, last.partition, last.first_offset, last.reason, last.failed_at
        from (select) one left join (
            select t.name, p.partition, f.first_offset, f.reason, f.failed_at from trunkline.group_failure f
            join trunkline.group_cursor c using (cursor_id) join trunkline.topic_partition p using (partition_id)
            join trunkline.topic t using (topic_id)
            where f.cursor_id = any (cursors) order by f.failed_at desc, f.failure_id desc limit 1) last on true;
end $$;
