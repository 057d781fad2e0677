-- Notes an id in an inbox, in the caller's transaction; whether it is new there. Another transaction that adds the same
-- id waits for this one to end, and is told what became of it.
--     select trunkline.inbox_add('billing', convert_to('invoice-42', 'UTF8'));
-- locks: the id, until the transaction ends
-- errors: TL001, TL002 where there is no such inbox, 40001 in REPEATABLE READ, 55P03
-- grants: consumer
create function trunkline.inbox_add(inbox text, id bytea) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    found_id integer;
begin
    if id is null then
        raise exception 'an id is null' using errcode = 'TL001';
    end if;
    select i.inbox_id into found_id from trunkline.inbox i where i.name = inbox_add.inbox collate "C";
    if not found then
        raise exception 'inbox % does not exist', inbox using errcode = 'TL002', hint = 'make it: select trunkline.inbox_open(…)';
    end if;
    -- An id over 200 bytes goes by its hash: an index has room for less than 3,000.
    insert into trunkline.inbox_entry (inbox_id, entry_id, added_at)
    values (found_id, case when length(id) > 200 then sha256(id) else id end, trunkline.clock_now())
    on conflict on constraint inbox_entry_pkey do nothing;
    return found;
end $$;
