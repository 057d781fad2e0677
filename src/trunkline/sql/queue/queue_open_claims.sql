-- The numbers of claims and tickets of a part that are open: of which something is held, or waits.
-- Stable: it looks with the eyes of the statement that asks, so that what is taken over meanwhile is not missed.
-- grants: none
create function trunkline.queue_open_claims(part_id integer, table_no integer) returns bigint[]
language plpgsql stable
as $$
declare
    found_ bigint[];
begin
    execute format('select array_agg(distinct x.claim_no)
        from (select s.swept, s.swept_no from trunkline.claim_%1$s s where s.part_id = $1 order by s.claim_no desc limit 1) s
        cross join lateral (
            select coalesce(d.about, d.claim_no) as claim_no from trunkline.claim_%1$s d
            where d.part_id = $1 and d.deadline is not null and (d.deadline, d.claim_no) > (s.swept, s.swept_no)) x
        where not exists (
            select from trunkline.closure_%1$s l
            where l.part_id = $1 and l.claim_no = x.claim_no and isempty(l.remains))', table_no)
    into found_ using part_id;
    return coalesce(found_, '{}');
end $$;
