-- What a client calls after queue_next has said is_full: makes new tables for the claims of a queue, unless somebody has.
-- Parts move to them one by one: call queue_move_parts in a transaction of its own after this.
-- Whether there are new tables.
-- locks: the queue
-- errors: TL002, 55P03
-- grants: consumer, admin
create function trunkline.queue_roll(queue_id integer, force boolean default false) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    perform trunkline.lock_queue(queue_id);
    if not exists (select from trunkline.queue q where q.queue_id = queue_roll.queue_id) then
        raise exception 'queue % was deleted', queue_id using errcode = 'TL002';
    end if;
    if exists (select from trunkline.queue_table t where t.queue_id = queue_roll.queue_id
        and not exists (select from trunkline.queue_part p where p.table_no = t.table_no)
        and t.table_no > (select max(p.table_no) from trunkline.queue_part p where p.queue_id = queue_roll.queue_id)) then
        return true;
    end if;
    if not coalesce(force, false) and not trunkline.queue_is_full(queue_id) then
        return false;
    end if;
    perform trunkline.queue_table_create(queue_id);
    return true;
end $$;
