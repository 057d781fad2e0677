-- The claims and tickets of a part that are open, with what remains of them, and until when.
-- Stable: it looks with the eyes of the statement that asks, which must be the one that has found table_no.
-- errors: 42P01 where the part has moved since, and its old tables are gone: ask again, in another statement
-- grants: none
create function trunkline.queue_open(part_id integer, table_no integer)
returns table (
    claim_no bigint, kind "char", offsets int8multirange, attempt integer, holder text, at timestamptz,
    deadline timestamptz)
language plpgsql stable
as $$
begin
    return query execute format(
        'select c.claim_no, c.kind, coalesce(l.remains, c.offsets), c.attempt, c.holder, c.at, coalesce(l.deadline, c.deadline)
         from unnest(trunkline.queue_open_claims($1, $2)) u(claim_no)
         join trunkline.claim_%1$s c on c.part_id = $1 and c.claim_no = u.claim_no
         left join lateral (
             select x.remains, x.deadline from trunkline.closure_%1$s x
             where x.part_id = $1 and x.claim_no = u.claim_no order by x.seq desc limit 1) l on true', table_no)
    using part_id, table_no;
end $$;
