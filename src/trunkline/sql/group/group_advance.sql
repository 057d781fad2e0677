-- Appends the commit of each cursor whose newest row is of this member and epoch, and does not lie further on already
-- (or lies exactly at from_offsets, where that is given); how many. Its caller holds the cursors' locks since an earlier
-- statement: a look inside the statement that waited would see what was there before the wait.
-- grants: none
create function trunkline.group_advance(
    member_id integer, cursor_ids integer[], epochs integer[], next_offsets bigint[], from_offsets bigint[])
returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    written integer;
begin
    insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
    select n.cursor_id, n.seq + 1, n.epoch, c.next_offset, n.member_id, 'c', trunkline.clock_now()
    from unnest(cursor_ids, epochs, next_offsets, from_offsets) c(cursor_id, epoch, next_offset, from_offset)
    cross join lateral (
        select l.cursor_id, l.seq, l.epoch, l.next_offset, l.member_id from trunkline.group_ledger l
        where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
    where n.epoch = c.epoch and n.member_id = group_advance.member_id and c.next_offset >= n.next_offset
        and (c.from_offset is null or c.from_offset = n.next_offset);
    get diagnostics written = row_count;
    return written;
end $$;
