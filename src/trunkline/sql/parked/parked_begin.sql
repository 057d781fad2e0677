-- Called before something is given up or parked: locks all partitions of the transaction, of which member_id must hold
-- each, as its commit will. In this order, and before any row: whoever asks for a redrive locks the same way.
-- locks: the cursors, in ascending order, until the transaction ends
-- errors: TL001, TL013 where a partition was lost (detail: the cursors), 55P03
-- grants: consumer
create function trunkline.parked_begin(member_id integer, cursor_ids integer[], epochs integer[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    perform trunkline.lock_cursors(cursor_ids);
    perform trunkline.group_check_held(member_id, cursor_ids, epochs);
end $$;
