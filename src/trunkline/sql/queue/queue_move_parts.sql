-- Moves one part of a queue that is not in its newest tables there: what is open is carried over, under its number. A
-- part whose claims are being settled just now is left for the next time. How many parts are still to be moved; call it
-- again, each time in a transaction of its own, until there are none, or no fewer than before; then queue_drop_old.
-- locks: the part, and its open claims
-- errors: 55P03
-- grants: consumer, admin
create function trunkline.queue_move_parts(queue_id integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
    newest   constant integer := (
        select max(t.table_no) from trunkline.queue_table t where t.queue_id = queue_move_parts.queue_id);
    part     record;
    is_tried boolean := false;
begin
    for part in
        select p.part_id from trunkline.queue_part p
        where p.queue_id = queue_move_parts.queue_id and p.table_no < newest order by random()
    loop
        -- Only the first is waited for: the lock of one that could not be moved is still held.
        continue when is_tried and not pg_try_advisory_xact_lock(trunkline.lock_class() + 6, part.part_id);
        is_tried := true;
        exit when trunkline.queue_move_part(part.part_id, newest);
    end loop;
    return (select count(*) from trunkline.queue_part p
        where p.queue_id = queue_move_parts.queue_id and p.table_no < newest);
end $$;
