-- Takes away rows of the ledger that newer ones have replaced, beats that are old, and members that are dead: at most
-- about max_rows of the first. Who took, gave back and sought stays for a day. It remembers how far it came, so that it
-- never looks twice at what it has deleted, which under a held snapshot stays in the index. How many rows went.
-- own_session is the number whose lock the calling session itself holds, and which it could not find dead.
-- locks: the group_swept row of each cursor that is swept; one that another session sweeps is left out
-- errors: none
-- grants: consumer, admin
create function trunkline.group_sweep(max_rows integer default 10000, own_session integer default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    place record;
    gone  integer := 0;
    n     integer;
begin
    insert into trunkline.group_swept (cursor_id, seq)
    select c.cursor_id, 0 from trunkline.group_cursor c
    where not exists (select from trunkline.group_swept s where s.cursor_id = c.cursor_id)
    on conflict do nothing;
    for place in select s.cursor_id, s.seq, newest.seq as last
        from trunkline.group_swept s cross join lateral (
            select l.seq from trunkline.group_ledger l
            where l.cursor_id = s.cursor_id order by l.seq desc limit 1) newest
        where newest.seq - s.seq > 100
        for update of s skip locked loop
        place.last := least(place.last, place.seq + max_rows - gone);
        delete from trunkline.group_ledger l
        where l.cursor_id = place.cursor_id and l.seq > place.seq and l.seq < place.last and l.kind in ('c', 'm');
        get diagnostics n = row_count;
        update trunkline.group_swept s set seq = place.last - 1 where s.cursor_id = place.cursor_id;
        gone := gone + n;
        exit when gone >= max_rows;
    end loop;
    delete from trunkline.group_ledger l
    where l.kind not in ('c', 'm') and l.at < trunkline.clock_now() - interval '1 day'
        and (exists (select from trunkline.group_ledger x where x.cursor_id = l.cursor_id and x.seq > l.seq)
            or not exists (select from trunkline.group_cursor c where c.cursor_id = l.cursor_id));
    get diagnostics n = row_count;
    delete from trunkline.session_beat b
    where b.at < trunkline.clock_now() - interval '1 hour'
        or exists (select from trunkline.session_beat x where x.session_no = b.session_no and x.at > b.at);
    perform trunkline.member_leave(array(
        select m.member_id from trunkline.group_member m where m.session_no is distinct from own_session), only_dead => true);
    return gone + n;
end $$;
