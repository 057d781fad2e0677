-- Takes away what sinks have left behind: stages older than a day that belong to no batch under way, all but the newest
-- hundred batches of each ledger, and sinks that were made up for one write, a week old. How many stages went.
-- locks: as sink_discard
-- grants: admin
create function trunkline.sink_sweep() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    now constant timestamptz := trunkline.clock_now();
    old constant integer[] := array(
        select distinct s.stage_no from trunkline.sink_stage s where s.at < now - interval '1 day' limit 10000);
begin
    perform trunkline.sink_discard(old);
    delete from trunkline.sink k where not k.is_named and k.created_at < now - interval '7 days';
    delete from trunkline.sink_ledger l
    where not exists (select from trunkline.sink k where k.sink_no = l.sink_no)
        or l.batch_id < (select max(n.batch_id) from trunkline.sink_ledger n where n.sink_no = l.sink_no) - 100;
    return cardinality(old);
end $$;
