-- Takes a partition's lock for the rest of the transaction. Whoever holds it, and nobody else, may append to
-- the partition or move it to another segment; read what it protects in a later statement.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_partition(partition_id integer) returns void
language plpgsql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class(), lock_partition.partition_id) then
        perform trunkline.lock_wait(trunkline.lock_class(), lock_partition.partition_id);
    end if;
end $$;
