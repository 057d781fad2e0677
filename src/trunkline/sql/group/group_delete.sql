-- Deletes a group with its cursors. Refused while it has living members, unless they are to be cut off.
-- locks: the group, then its cursors in ascending order
-- errors: TL001 TL002, TL016 it has living members, 55P03
-- grants: admin
create function trunkline.group_delete(name text, cut_off boolean default false) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id    constant integer := trunkline.group_id_of(name);
    alive integer;
begin
    perform trunkline.lock_group(id);
    select count(*) filter (where trunkline.member_is_alive(m.member_id)) into alive
    from trunkline.group_member m where m.group_id = id;
    if alive > 0 and not coalesce(cut_off, false) then
        raise exception 'group % has % living members', name, alive using errcode = 'TL016',
            hint = 'stop them first, or ask to cut them off';
    end if;
    perform trunkline.group_forget(array(select c.cursor_id from trunkline.group_cursor c where c.group_id = id));
    delete from trunkline.reader_group g where g.group_id = id;
end $$;
