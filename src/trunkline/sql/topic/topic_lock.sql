-- Takes the lock under which a topic's segments, partitions and settings change, for the rest of the transaction.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.topic_lock(topic_id integer) returns void
language plpgsql volatile
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 1, topic_id) then
        perform trunkline.lock_wait(trunkline.lock_class() + 1, topic_id);
    end if;
end $$;
