-- Takes the locks of cursors for the rest of the transaction, in ascending order. Whoever holds one, and nobody else,
-- may append to the cursor's ledger; read its newest row in a later statement.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_cursors(cursor_ids integer[]) returns void
language plpgsql volatile
as $$
declare
    id integer;
begin
    if cardinality(cursor_ids) = 1 then
        if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, cursor_ids[1]) then
            perform trunkline.lock_wait(trunkline.lock_class() + 2, cursor_ids[1]);
        end if;
        return;
    end if;
    for id in select distinct c from unnest(cursor_ids) c order by c loop
        if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, id) then
            perform trunkline.lock_wait(trunkline.lock_class() + 2, id);
        end if;
    end loop;
end $$;
