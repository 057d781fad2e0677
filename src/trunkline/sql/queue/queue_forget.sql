-- Takes the short way from the readers of a queue that is being deleted: what they ask for next, queue_next answers.
-- locks: the queue
-- errors: 55P03
-- grants: none
create function trunkline.queue_forget(queue_id integer) returns void
language plpgsql volatile
as $$
declare
    tables record;
begin
    perform trunkline.lock_queue(queue_id);
    for tables in
        select t.table_no from trunkline.queue_table t where t.queue_id = queue_forget.queue_id order by t.table_no
    loop
        execute format('drop function if exists trunkline.claim_%s_step', tables.table_no);
    end loop;
end $$;
