-- Takes the lock of a queue in one partition for the rest of the transaction. Whoever holds it, and nobody else, may
-- append to its claims or move it to other tables; read what it protects in a later statement.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_part(part_id integer) returns void
language plpgsql volatile
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 6, part_id) then
        perform trunkline.lock_wait(trunkline.lock_class() + 6, part_id);
    end if;
end $$;
