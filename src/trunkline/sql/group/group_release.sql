-- Gives partitions back, where their cursors stand: whoever takes them next goes on there. Those that the member has
-- lost already are left as they are; how many were given back.
-- locks: the cursors, in ascending order
-- errors: TL001, 40001, 55P03
-- grants: consumer
create function trunkline.group_release(member_id integer, cursor_ids integer[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    written integer;
begin
    perform trunkline.log_guard_commit();
    perform trunkline.lock_cursors(cursor_ids);
    insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
    select n.cursor_id, n.seq + 1, n.epoch + 1, n.next_offset, null, 'r', trunkline.clock_now()
    from (select distinct u.id from unnest(cursor_ids) u(id)) c cross join lateral (
        select l.cursor_id, l.seq, l.epoch, l.next_offset, l.member_id from trunkline.group_ledger l
        where l.cursor_id = c.id order by l.seq desc limit 1) n
    where n.member_id = group_release.member_id;
    get diagnostics written = row_count;
    return written;
exception when unique_violation then
    perform trunkline.group_raise_moved();
end $$;
