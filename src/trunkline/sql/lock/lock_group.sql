-- Takes the lock under which it changes what a group reads, for the rest of the transaction.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_group(group_id integer) returns void
language plpgsql volatile
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 4, group_id) then
        perform trunkline.lock_wait(trunkline.lock_class() + 4, group_id);
    end if;
end $$;
