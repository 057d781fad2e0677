-- Drops tables that no part of a queue uses any more, whole. Waits at most a second for somebody who still looks at one;
-- then it can be tried again. How many pairs went.
-- locks: the queue, if it is free; the tables, exclusively
-- errors: 55P03
-- grants: consumer, admin
create function trunkline.queue_drop_old() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set lock_timeout = '1s'
as $$
declare
    old  record;
    gone integer := 0;
begin
    for old in
        select t.table_no, t.queue_id from trunkline.queue_table t
        where not exists (select from trunkline.queue_part p where p.table_no = t.table_no)
            -- The newest tables of a queue wait for its parts.
            and (not exists (select from trunkline.queue q where q.queue_id = t.queue_id)
                or t.table_no < (select max(x.table_no) from trunkline.queue_table x where x.queue_id = t.queue_id))
        order by t.table_no for update skip locked
    loop
        -- Under the queue's lock others make the functions of its tables again.
        continue when not pg_try_advisory_xact_lock(trunkline.lock_class() + 8, old.queue_id);
        execute format('drop table if exists trunkline.claim_%1$s, trunkline.closure_%1$s', old.table_no);
        execute format('drop function if exists trunkline.claim_%s_take', old.table_no);
        execute format('drop function if exists trunkline.claim_%s_settle', old.table_no);
        execute format('drop function if exists trunkline.claim_%s_step', old.table_no);
        execute format('drop function if exists trunkline.claim_%s_ready', old.table_no);
        delete from trunkline.queue_table t where t.table_no = old.table_no;
        gone := gone + 1;
    end loop;
    return gone;
end $$;
