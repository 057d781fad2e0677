-- Forgets what was added to inboxes longer ago than each remembers; at most max_rows. How many went.
-- locks: the rows that go; what others hold is left for the next time
-- errors: none
-- grants: consumer, admin
create function trunkline.inbox_sweep(max_rows integer default 10000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    inbox   record;
    gone    integer;
    swept   integer := 0;
begin
    for inbox in select i.inbox_id, i.keep_s from trunkline.inbox i order by i.inbox_id loop
        delete from trunkline.inbox_entry e using (
            select x.inbox_id, x.entry_id from trunkline.inbox_entry x
            where x.inbox_id = inbox.inbox_id
                and x.added_at < trunkline.clock_now() - make_interval(secs => inbox.keep_s)
            order by x.added_at limit max_rows - swept for update skip locked) old
        where e.inbox_id = old.inbox_id and e.entry_id = old.entry_id;
        get diagnostics gone = row_count;
        swept := swept + gone;
    end loop;
    return swept;
end $$;
