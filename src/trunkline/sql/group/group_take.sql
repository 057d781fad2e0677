-- Takes partitions for a member: those that nobody holds, whose holder has gone, or that it holds itself; others are
-- left as they are. Returns what was taken, with the epoch under which to commit and the offset at which to go on.
-- Whoever held one before can no longer commit it: also what that transaction was still about to do has ended, or is
-- refused.
-- locks: the cursors, in ascending order
-- errors: TL001, TL002 a member that has been removed, 40001, 55P03
-- grants: consumer
create function trunkline.group_take(member_id integer, cursor_ids integer[])
returns table (cursor_id integer, epoch integer, next_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    perform trunkline.log_guard_commit();
    perform trunkline.lock_cursors(cursor_ids);
    perform from trunkline.group_member m where m.member_id = group_take.member_id;
    if not found then
        raise exception 'member % has been removed from its group', member_id
            using errcode = 'TL002', hint = 'it was taken for dead; join again';
    end if;
    return query
        insert into trunkline.group_ledger as w (cursor_id, seq, epoch, next_offset, member_id, kind, at)
        select n.cursor_id, n.seq + 1, n.epoch + 1, n.next_offset, group_take.member_id, 't', trunkline.clock_now()
        from (
            select distinct c.cursor_id from trunkline.group_cursor c
            join trunkline.group_member m on m.group_id = c.group_id and m.member_id = group_take.member_id
            where c.cursor_id = any (cursor_ids)) c cross join lateral (
            select l.cursor_id, l.seq, l.epoch, l.next_offset, l.member_id from trunkline.group_ledger l
            where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
        where n.member_id is null or n.member_id = group_take.member_id or not trunkline.member_is_alive(n.member_id)
        returning w.cursor_id, w.epoch, w.next_offset;
exception when unique_violation then
    perform trunkline.group_raise_moved();
end $$;
