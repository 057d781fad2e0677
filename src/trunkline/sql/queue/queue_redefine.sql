-- Makes the functions of a queue again, after something has changed that stands in their text.
-- locks: the queue
-- errors: 55P03
-- grants: none
create function trunkline.queue_redefine(queue_id integer) returns void
language plpgsql volatile
as $$
begin
    perform trunkline.lock_queue(queue_id);
    perform trunkline.queue_define(t.table_no) from (
        select x.table_no from trunkline.queue_table x
        where x.queue_id = queue_redefine.queue_id order by x.table_no) t;
end $$;
