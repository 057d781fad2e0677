-- Moves one part of a queue to other tables. Whether it was done: not where a claim of it is being settled.
-- locks: the part, and its open claims
-- errors: 55P03
-- grants: none
create function trunkline.queue_move_part(part_id integer, table_no integer) returns boolean
language plpgsql volatile
as $$
declare
    old   integer;
    open  bigint[];
    again bigint[];
begin
    perform trunkline.lock_part(part_id);
    select p.table_no into old from trunkline.queue_part p where p.part_id = queue_move_part.part_id;
    if not found or old >= table_no then
        return true;
    end if;
    -- Everything that is open has a deadline that nobody has looked at yet.
    open := trunkline.queue_open_claims(part_id, old);
    if not coalesce((select bool_and(trunkline.lock_claim_try(part_id, c)) from unnest(open) c), true) then
        return false;
    end if;
    -- In a later statement than the locks: what was settled until then is closed now, and nothing else becomes open.
    open := trunkline.queue_open_claims(part_id, old);
    execute format('insert into trunkline.claim_%s select c.* from trunkline.claim_%s c
        where c.part_id = $1 and (c.claim_no = any ($2) or c.about = any ($2))',
        table_no, old) using part_id, open;
    execute format('insert into trunkline.closure_%s select l.* from unnest($2) u(claim_no) cross join lateral (
        select x.* from trunkline.closure_%s x
        where x.part_id = $1 and x.claim_no = u.claim_no order by x.seq desc limit 1) l',
        table_no, old) using part_id, open;
    execute format('insert into trunkline.claim_%s (claim_no, at, frontier, swept, swept_no, next_due, expired, part_id, kind)
        select s.claim_no + 1, trunkline.clock_now(), s.frontier, s.swept, s.swept_no, s.next_due, s.expired, s.part_id, ''m''
        from trunkline.claim_%s s where s.part_id = $1 order by s.claim_no desc limit 1', table_no, old) using part_id;
    -- Whoever comes to the old tables finds that nothing is to be had there, and nothing to be settled.
    execute format('insert into trunkline.closure_%1$s (claim_no, deadline, at, part_id, seq, records, kind, remains)
        select u.claim_no, ''-infinity'', trunkline.clock_now(), $1, 1 + coalesce((
            select max(l.seq) from trunkline.closure_%1$s l where l.part_id = $1 and l.claim_no = u.claim_no), 0), 0, ''m'', ''{}''
        from unnest($2) u(claim_no)', old) using part_id, open;
    execute format('insert into trunkline.claim_%1$s (claim_no, at, frontier, swept, swept_no, next_due, expired, part_id, kind)
        select s.claim_no + 1, s.at, 1::bigint << 62, s.swept, s.swept_no, ''infinity'', s.expired, s.part_id, ''m''
        from trunkline.claim_%1$s s where s.part_id = $1 order by s.claim_no desc limit 1', old) using part_id;
    update trunkline.queue_part p set table_no = queue_move_part.table_no where p.part_id = queue_move_part.part_id;
    return true;
end $$;
