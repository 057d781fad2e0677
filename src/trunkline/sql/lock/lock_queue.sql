-- Takes the lock under which the tables and parts of a queue change, for the rest of the transaction.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_queue(queue_id integer) returns void
language plpgsql volatile
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 8, queue_id) then
        perform trunkline.lock_wait(trunkline.lock_class() + 8, queue_id);
    end if;
end $$;
