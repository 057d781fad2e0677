-- The parked records of a key up to an offset have been handled: they go, in the caller's transaction. Where they were
-- the last ones the key is free again.
-- errors: none
-- grants: consumer
create function trunkline.parked_done(cursor_id integer, key bytea, group_key bytea, last_offset bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant bytea := trunkline.parked_key_id(key, group_key);
begin
    delete from trunkline.group_parked p
    where p.cursor_id = parked_done.cursor_id and p.key_id = id and p.record_offset <= last_offset;
    delete from trunkline.group_blocked b
    where b.cursor_id = parked_done.cursor_id and b.key_id = id and not exists (
        select from trunkline.group_parked p where p.cursor_id = b.cursor_id and p.key_id = b.key_id);
end $$;
