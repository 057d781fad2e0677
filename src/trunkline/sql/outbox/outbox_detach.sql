-- Publishes the rows of an attached table no longer. What was published stays. A table that was dropped is named by
-- table_name, with a null before it. Returns the topic that it was attached to.
-- Runs with the caller's rights, who must own the table where its trigger is still there.
-- locks: the table in ACCESS EXCLUSIVE mode, until the transaction ends
-- errors: TL002 it is not attached, 42501, 55P03
-- grants: admin
create function trunkline.outbox_detach(relation regclass, table_name text default null) returns text
language plpgsql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    if exists (select from pg_trigger t where t.tgrelid = relation and t.tgname = 'trunkline_outbox') then
        if not (select pg_has_role(c.relowner, 'usage') from pg_class c where c.oid = relation) then
            raise exception '% may not drop a trigger of table %', current_user, relation using errcode = '42501',
                hint = 'run it as the owner of the table';
        end if;
        execute format('drop trigger trunkline_outbox on %s', relation);
    end if;
    return trunkline.outbox_source_remove(relation, table_name);
end $$;
