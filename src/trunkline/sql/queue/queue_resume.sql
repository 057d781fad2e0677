-- Lets readers claim from a queue again. Whether it was paused.
-- errors: TL001 TL002
-- grants: admin
create function trunkline.queue_resume(topic text, name text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    update trunkline.queue q set paused_at = null, pause_reason = null, resumed_at = trunkline.clock_now()
    where q.queue_id = trunkline.queue_id_of(topic, queue_resume.name) and q.paused_at is not null;
    return found;
end $$;
