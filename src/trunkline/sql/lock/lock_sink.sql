-- Takes the lock under which a sink's batches are published, for the rest of the transaction.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_sink(sink_no integer) returns void
language plpgsql volatile
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 5, sink_no) then
        perform trunkline.lock_wait(trunkline.lock_class() + 5, sink_no);
    end if;
end $$;
