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
as $$
declare
    written integer;
begin
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
