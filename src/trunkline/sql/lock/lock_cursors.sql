-- Takes the locks of cursors for the rest of the transaction, in ascending order. Whoever holds one, and nobody else,
-- may append to the cursor's ledger; read its newest row in a later statement. How many there are: one that is named
-- twice counts once.
-- errors: TL001 where one is null, or all of them, 55P03 when the wait is over
-- grants: none
create function trunkline.lock_cursors(cursor_ids integer[]) returns integer
language plpgsql volatile
as $$
declare
    id     integer;
    locked integer := 0;
begin
    -- Not the first of every array has the index 1: such ones go the longer way.
    if cardinality(cursor_ids) = 1 and cursor_ids[1] is not null then
        if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, cursor_ids[1]) then
            perform trunkline.lock_wait(trunkline.lock_class() + 2, cursor_ids[1]);
        end if;
        return 1;
    end if;
    if cursor_ids is null then
        raise exception 'cursors must be an array, not null' using errcode = 'TL001';
    end if;
    for id in select distinct c from unnest(cursor_ids) c order by c loop
        if id is null then
            raise exception 'a cursor is null' using errcode = 'TL001';
        end if;
        if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, id) then
            perform trunkline.lock_wait(trunkline.lock_class() + 2, id);
        end if;
        locked := locked + 1;
    end loop;
    return locked;
end $$;
