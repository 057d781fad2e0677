-- Deletes a queue, and what is known of its claims; readers are told. Records stay in the log. Its tables are left for
-- queue_drop_old.
-- locks: the queue
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.queue_delete(topic text, name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.queue_id_of(topic, name);
begin
    perform trunkline.queue_forget(id);
    delete from trunkline.queue q where q.queue_id = id;
end $$;
