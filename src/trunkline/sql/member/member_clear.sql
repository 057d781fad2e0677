-- Removes the members that are dead, and gives back what they held. It waits for nobody: one whose transaction still
-- holds a cursor, or whom somebody else removes, is left as it is. own_session is never found dead, see group_sweep.
-- locks: the cursors of each such member
-- grants: none
create function trunkline.member_clear(own_session integer) returns void
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    dead record;
begin
    for dead in select m.member_id, m.group_id from trunkline.group_member m
        where m.session_no is distinct from own_session and not trunkline.member_is_alive(m.member_id)
        for update skip locked loop
        if (select bool_and(pg_try_advisory_xact_lock(trunkline.lock_class() + 2, c.cursor_id))
            from trunkline.group_cursor c cross join lateral (
                select l.member_id from trunkline.group_ledger l
                where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
            where c.group_id = dead.group_id and n.member_id = dead.member_id) is not false then
            perform trunkline.member_leave(array[dead.member_id]);
        end if;
    end loop;
end $$;
