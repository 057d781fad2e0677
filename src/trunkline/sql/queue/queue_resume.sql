-- Lets readers claim from a queue again. Whether it was paused.
-- locks: the queue
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.queue_resume(topic text, name text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.queue_id_of(topic, name);
begin
    perform trunkline.lock_queue(id);
    update trunkline.queue q set paused_at = null, pause_reason = null, resumed_at = trunkline.clock_now()
    where q.queue_id = id and q.paused_at is not null;
    if not found then
        return false;
    end if;
    perform trunkline.queue_redefine(id);
    return true;
end $$;
