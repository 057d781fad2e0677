-- Waits for a transaction-level lock that somebody else holds, never without a bound: the session's
-- lock_timeout, or ten seconds where the session has none.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_wait(lock_class integer, object integer) returns void
language plpgsql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    bounded constant boolean := current_setting('lock_timeout') <> '0';
begin
    if not bounded then
        perform set_config('lock_timeout', '10s', true);
    end if;
    perform pg_advisory_xact_lock(lock_wait.lock_class, lock_wait.object);
    if not bounded then
        perform set_config('lock_timeout', '0', true);
    end if;
end $$;
