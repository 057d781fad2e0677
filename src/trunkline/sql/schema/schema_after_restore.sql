-- To be called once after a database was restored from a backup: raises the log epoch, so that positions kept
-- outside whose records are gone are not taken for valid. Returns the new epoch.
-- grants: admin
create function trunkline.schema_after_restore() returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    epoch bigint;
begin
    update trunkline.meta set log_epoch = log_epoch + 1 returning log_epoch into epoch;
    return epoch;
end $$;
