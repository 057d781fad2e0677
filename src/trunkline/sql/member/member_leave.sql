-- Ends memberships, and gives back what these members still hold, where their cursors stand. With only_dead, those of
-- them that are alive are left as they are. How many have gone.
-- locks: the cursors that they hold, in ascending order
-- errors: 40001, 55P03
-- grants: consumer
create function trunkline.member_leave(member_ids integer[], only_dead boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    gone integer[];
    held integer[];
begin
    select array_agg(m.member_id) into gone from trunkline.group_member m
    where m.member_id = any (member_ids) and not (coalesce(only_dead, false) and trunkline.member_is_alive(m.member_id));
    select array_agg(c.cursor_id) into held
    from trunkline.group_member m join trunkline.group_cursor c on c.group_id = m.group_id
    cross join lateral (select l.member_id from trunkline.group_ledger l
        where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
    where m.member_id = any (gone) and n.member_id = m.member_id;
    perform trunkline.log_guard_commit();
    if held is not null then
        perform trunkline.lock_cursors(held);
        perform trunkline.group_release(id, held) from unnest(gone) id;
    end if;
    delete from trunkline.group_member m where m.member_id = any (gone);
    return coalesce(cardinality(gone), 0);
end $$;
