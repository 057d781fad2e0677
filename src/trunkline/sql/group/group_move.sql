-- Sets cursors that a member holds to other offsets, forward or back. Their epochs rise, so that a commit of what was
-- read before is refused. All of them or none; returns the new epochs. An offset outside the log shows at the next read.
-- locks: the cursors, in ascending order
-- errors: TL001, TL013, 40001, 55P03
-- grants: consumer
create function trunkline.group_move(
    member_id integer, cursor_ids integer[], epochs integer[], next_offsets bigint[])
returns table (cursor_id integer, epoch integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    if (cardinality(epochs) = cardinality(cursor_ids) and cardinality(next_offsets) = cardinality(cursor_ids)
        and 1 <= all (next_offsets)) is not true then
        raise exception 'cursors, epochs and offsets must be as many, and offsets at least 1' using errcode = 'TL001';
    end if;
    perform trunkline.log_guard_commit();
    if trunkline.lock_cursors(cursor_ids) <> cardinality(cursor_ids) then
        raise exception 'a cursor is named twice: %', array_to_string(cursor_ids, ', ') using errcode = 'TL001';
    end if;
    perform trunkline.group_check_held(member_id, cursor_ids, epochs);
    return query
        insert into trunkline.group_ledger as w (cursor_id, seq, epoch, next_offset, member_id, kind, at)
        select n.cursor_id, n.seq + 1, n.epoch + 1, c.next_offset, n.member_id, 's', trunkline.clock_now()
        from unnest(cursor_ids, next_offsets) c(cursor_id, next_offset)
        cross join lateral (
            select l.cursor_id, l.seq, l.epoch, l.member_id from trunkline.group_ledger l
            where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
        returning w.cursor_id, w.epoch;
exception when unique_violation then
    perform trunkline.group_raise_moved();
end $$;
