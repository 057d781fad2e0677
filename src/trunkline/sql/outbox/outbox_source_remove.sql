-- The part of outbox_detach that only we may do: forgets a table, by its id, or by its name where it was dropped.
-- Returns the topic that it was attached to.
-- errors: TL002 it is not attached
-- grants: admin
create function trunkline.outbox_source_remove(relation regclass, table_name text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    topic text;
begin
    delete from trunkline.outbox_source s
    where s.table_id = relation or relation is null and s.table_name in (
            outbox_source_remove.table_name, 'public.' || outbox_source_remove.table_name)
        and not exists (select from pg_class c where c.oid = s.table_id)
    returning s.topic_name into topic;
    if not found then
        raise exception 'table % is not attached', coalesce(relation::text, table_name, '(null)')
            using errcode = 'TL002', hint = 'see which are: trunkline outbox status';
    end if;
    return topic;
end $$;
