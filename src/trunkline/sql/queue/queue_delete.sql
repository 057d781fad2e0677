-- Deletes a queue, and what is known of its claims; readers are told. Records stay in the log. Its tables are left for
-- queue_drop_old.
-- errors: TL001 TL002
-- grants: admin
create function trunkline.queue_delete(topic text, name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    delete from trunkline.queue q where q.queue_id = trunkline.queue_id_of(topic, queue_delete.name);
end $$;
