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
declare
    newest integer;
    oldest integer;
begin
    perform trunkline.lock_queue(queue_id);
    if not exists (select from trunkline.queue q where q.queue_id = queue_roll.queue_id) then
        raise exception 'queue % was deleted', queue_id using errcode = 'TL002';
    end if;
    select max(t.table_no), min(p.table_no) into newest, oldest
    from trunkline.queue_table t left join trunkline.queue_part p using (queue_id) where t.queue_id = queue_roll.queue_id;
    if oldest < newest and not trunkline.queue_is_full(queue_id, newest) then
        return true;    -- Somebody has, and parts are still on their way.
    end if;
    if not coalesce(force, false) and not trunkline.queue_is_full(queue_id) then
        return false;
    end if;
    perform trunkline.queue_table_create(queue_id);
    return true;
end $$;
