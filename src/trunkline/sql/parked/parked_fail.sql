-- The redrive of a key has failed: its records stay parked, until it is asked for again.
-- errors: none
-- grants: consumer
create function trunkline.parked_fail(cursor_id integer, key bytea, group_key bytea, reason text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    update trunkline.group_blocked b
    set due_at = null, attempts = b.attempts + 1, reason = parked_fail.reason, blocked_at = trunkline.clock_now()
    where b.cursor_id = parked_fail.cursor_id
        and b.key_id = trunkline.parked_key_id(parked_fail.key, parked_fail.group_key);
end $$;
