-- Takes away rows of the ledger that newer ones have replaced, beats that are old, and members that are dead: at most
-- max_rows of the first. Who took, gave back and sought stays for a day. It remembers how far it came, so that it
-- never looks twice at what it has deleted, which under a held snapshot stays in the index. How many rows went.
-- own_session is the number whose lock the calling session itself holds, and which it could not find dead.
-- It waits for nobody: what others hold is left for the next time.
-- locks: the group_swept row of each cursor that is swept, and the cursors of dead members
-- errors: TL001
-- grants: consumer, admin
create function trunkline.group_sweep(max_rows integer default 10000, own_session integer default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    now   constant timestamptz := trunkline.clock_now();    -- once: a volatile function is no condition for an index
    place record;
    gone  integer := 0;
    n     integer;
begin
    if (max_rows >= 1) is not true then
        raise exception 'max_rows must be at least 1, not %', coalesce(max_rows::text, 'null') using errcode = 'TL001';
    end if;
    insert into trunkline.group_swept (cursor_id, seq)
    select c.cursor_id, 0 from trunkline.group_cursor c
    where not exists (select from trunkline.group_swept s where s.cursor_id = c.cursor_id)
    for no key update of c skip locked
    on conflict do nothing;
    for place in select s.cursor_id, s.seq, newest.seq as last
        from trunkline.group_swept s cross join lateral (
            select l.seq from trunkline.group_ledger l
            where l.cursor_id = s.cursor_id order by l.seq desc limit 1) newest
        where newest.seq - s.seq > 100
        for update of s skip locked loop
        exit when gone >= max_rows;
        place.last := least(place.last, place.seq + 1 + max_rows - gone);
        delete from trunkline.group_ledger l
        where l.cursor_id = place.cursor_id and l.seq > place.seq and l.seq < place.last and l.kind in ('c', 'm');
        get diagnostics n = row_count;
        update trunkline.group_swept s set seq = place.last - 1 where s.cursor_id = place.cursor_id;
        gone := gone + n;
    end loop;
    delete from trunkline.group_ledger l
    where l.kind not in ('c', 'm') and l.at < now - interval '1 day'
        and (exists (select from trunkline.group_ledger x where x.cursor_id = l.cursor_id and x.seq > l.seq)
            or not exists (select from trunkline.group_cursor c where c.cursor_id = l.cursor_id));
    get diagnostics n = row_count;
    -- The newest beat of a session stays while it has members: it may be older than their timeout is long.
    delete from trunkline.session_beat b
    where exists (select from trunkline.session_beat x where x.session_no = b.session_no and x.at > b.at)
        or b.at < now - interval '1 hour'
            and not exists (select from trunkline.group_member m where m.session_no = b.session_no);
    perform trunkline.member_clear(own_session);
    return gone + n;
end $$;
