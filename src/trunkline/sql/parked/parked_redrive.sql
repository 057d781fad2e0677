-- Asks for a redrive of parked keys of a group: of all, or of those with this key, this group key, or both. Whoever
-- holds the partition hands their records to the handler, in their order. With discard those that failed themselves are
-- dropped, and only what stood behind them is redriven. Without execute it only says which keys it would be, as
-- parked_list does.
-- locks: the cursors, in ascending order
-- errors: TL001 TL002, 55P03
-- grants: consumer, admin
create function trunkline.parked_redrive(
    name text, only_key bytea default null, only_group_key bytea default null, discard boolean default false,
    execute boolean default false)
returns table (
    topic text, partition integer, key bytea, group_key bytea, first_offset bigint, record_count bigint,
    failed_count bigint, attempts integer, reason text, blocked_at timestamptz, due_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id      constant integer := trunkline.group_id_of(name);
    cursors constant integer[] := array(
        select distinct b.cursor_id from trunkline.group_blocked b join trunkline.group_cursor c using (cursor_id)
        where c.group_id = id);
begin
    if execute and cardinality(cursors) > 0 then
        perform trunkline.lock_cursors(cursors);
        if discard then
            delete from trunkline.group_parked x using trunkline.group_blocked b
            where x.cursor_id = b.cursor_id and x.key_id = b.key_id and x.behind is null
                and b.cursor_id = any (cursors) and (only_key is null or b.key = only_key)
                and (only_group_key is null or b.group_key = only_group_key);
        end if;
        update trunkline.group_blocked b set due_at = coalesce(b.due_at, trunkline.clock_now())
        where b.cursor_id = any (cursors) and (only_key is null or b.key = only_key)
            and (only_group_key is null or b.group_key = only_group_key);
        delete from trunkline.group_blocked b
        where b.cursor_id = any (cursors) and not exists (
            select from trunkline.group_parked x where x.cursor_id = b.cursor_id and x.key_id = b.key_id);
    end if;
    return query
        select l.* from trunkline.parked_list(name) l
        where (only_key is null or l.key = only_key) and (only_group_key is null or l.group_key = only_group_key);
end $$;
