-- Moves cursors of a group forward: everything below next_offsets is done. All of them or none: the newest row of each
-- must still be of this member and this epoch, else nothing is written. In the caller's transaction, which may hold the
-- effects of the records too; then from_offsets says where these records began, and a second copy of the same
-- transaction is refused.
-- locks: the cursors, in ascending order, until the transaction ends
-- errors: TL001, TL013 where a partition was lost (detail: the cursors), 40001, 55P03
-- grants: consumer
create function trunkline.group_commit(
    member_id integer, cursor_ids integer[], epochs integer[], next_offsets bigint[],
    from_offsets bigint[] default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    newest  record;
    written integer;
begin
    -- One cursor, and nothing unusual: what follows would do the same, in three times as long.
    if cardinality(cursor_ids) = 1 and from_offsets is null and cursor_ids[1] is not null
        and cardinality(epochs) = 1 and cardinality(next_offsets) = 1
        and current_setting('transaction_isolation') = 'read committed'
        and current_setting('synchronous_commit') <> 'off' and current_setting('max_prepared_transactions') = '0' then
        if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, cursor_ids[1]) then
            perform trunkline.lock_wait(trunkline.lock_class() + 2, cursor_ids[1]);
        end if;
        select l.seq, l.epoch, l.next_offset, l.member_id into newest from trunkline.group_ledger l
        where l.cursor_id = cursor_ids[1] order by l.seq desc limit 1;
        if newest.epoch = epochs[1] and newest.member_id = group_commit.member_id
            and next_offsets[1] >= newest.next_offset then
            insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
            values (cursor_ids[1], newest.seq + 1, newest.epoch, next_offsets[1], newest.member_id, 'c',
                trunkline.clock_now());
            return;
        end if;
    end if;
    if (cardinality(cursor_ids) > 0 and cardinality(epochs) = cardinality(cursor_ids)
        and cardinality(next_offsets) = cardinality(cursor_ids)
        and (from_offsets is null or cardinality(from_offsets) = cardinality(cursor_ids))) is not true then
        raise exception 'cursors, epochs and offsets must be as many, and at least one' using errcode = 'TL001';
    end if;
    perform trunkline.log_guard_commit();
    if trunkline.lock_cursors(cursor_ids) <> cardinality(cursor_ids) then
        raise exception 'a cursor is named twice: %', array_to_string(cursor_ids, ', ') using errcode = 'TL001';
    end if;
    if current_setting('transaction_isolation') = 'read committed' then
        written := trunkline.group_advance(member_id, cursor_ids, epochs, next_offsets, from_offsets);
    else
        begin
            written := trunkline.group_advance(member_id, cursor_ids, epochs, next_offsets, from_offsets);
        exception when unique_violation or serialization_failure then
            perform trunkline.group_raise_moved();
        end;
    end if;
    if written <> cardinality(cursor_ids) then
        perform trunkline.group_check_held(member_id, cursor_ids, epochs);
        raise exception 'a commit does not take a cursor back: %', array_to_string(cursor_ids, ', ')
            using errcode = 'TL001', hint = 'seek to go back';
    end if;
end $$;
