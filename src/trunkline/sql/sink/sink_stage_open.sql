-- A number for a new stage: see sink_put. Flushed: a number that a crash takes back would be given out a second time, and
-- two tasks would write into one stage.
-- errors: none
-- grants: producer
create function trunkline.sink_stage_open() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    perform trunkline.log_guard_commit();
    return nextval('trunkline.sink_stage_no')::integer;
end $$;
