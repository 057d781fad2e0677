-- Lets nobody claim from a queue until it is resumed. What is held can still be settled.
-- errors: TL001 TL002
-- grants: admin
create function trunkline.queue_pause(topic text, name text, reason text default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    update trunkline.queue q set paused_at = trunkline.clock_now(), pause_reason = left(reason, 1000)
    where q.queue_id = trunkline.queue_id_of(topic, queue_pause.name);
end $$;
