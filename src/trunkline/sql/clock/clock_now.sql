-- The only place where time enters. Tests replace it as the owner; no setting or argument changes it.
-- grants: none
create function trunkline.clock_now() returns timestamptz
language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() $$;
