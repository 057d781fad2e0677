-- A number for a new stage: see sink_put.
-- errors: none
-- grants: producer
create function trunkline.sink_stage_open() returns integer
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$ select nextval('trunkline.sink_stage_no')::integer $$;
