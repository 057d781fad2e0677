-- Lets nobody claim from a queue until it is resumed. What is held can still be settled.
-- locks: the queue
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.queue_pause(topic text, name text, reason text default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.queue_id_of(topic, name);
begin
    perform trunkline.lock_queue(id);
    update trunkline.queue q set paused_at = trunkline.clock_now(), pause_reason = left(reason, 1000)
    where q.queue_id = id;
    perform trunkline.queue_redefine(id);
end $$;
