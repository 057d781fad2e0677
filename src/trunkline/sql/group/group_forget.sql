-- Takes cursors away with everything that is known of them. A commit that comes later finds nothing, and is refused.
-- locks: the cursors, in ascending order
-- grants: none
create function trunkline.group_forget(cursor_ids integer[]) returns void
language plpgsql volatile
as $$
begin
    perform trunkline.lock_cursors(cursor_ids);
    -- With it the sweep's mark, which the sweep holds while it deletes from the ledger: in the other order each of the
    -- two could wait for the other.
    delete from trunkline.group_cursor c where c.cursor_id = any (cursor_ids);
    delete from trunkline.group_ledger l where l.cursor_id = any (cursor_ids);
end $$;
