-- Settles what queue_next was given; the places of settlements whose claims are lost, or null.
-- locks: parts, in ascending order, where it is more than an acknowledgement; then claims
-- errors: TL001, 55P03
-- grants: none
create function trunkline.queue_settle(
    queue_id integer, is_ordered boolean, part_ids integer[], claim_nos bigint[], tokens bigint[], seqs integer[],
    kinds text[], offsets text[], delays double precision[]) returns integer[]
language plpgsql volatile
as $$
declare
    lost    integer[];
    tables  integer[];
    is_done boolean;
begin
    if (cardinality(part_ids) = cardinality(claim_nos) and cardinality(tokens) = cardinality(claim_nos)
        and cardinality(seqs) = cardinality(claim_nos) and cardinality(kinds) = cardinality(claim_nos)
        and cardinality(offsets) = cardinality(claim_nos) and cardinality(delays) = cardinality(claim_nos)
        and array_position(part_ids, null) is null and array_position(claim_nos, null) is null
        and array_position(seqs, null) is null and kinds <@ array['a', 'n', 'r', 'd', 'j', 'e']) is not true then
        raise exception 'settlements must be complete, and of the kinds a, n, r, d, j and e' using errcode = 'TL001';
    end if;
    if not kinds <@ array['a', 'd', 'j'] then
        -- A deadline that is written without the part's lock could be passed over by somebody who looks for due ones.
        perform trunkline.queue_check_delays(queue_id, kinds, delays);
        perform trunkline.lock_part(p.part_id) from (
            select distinct u.part_id from unnest(part_ids, kinds) u(part_id, kind)
            where u.kind in ('n', 'r', 'e') order by 1) p;
    end if;
    for i in 1 .. cardinality(claim_nos) loop
        perform trunkline.lock_claim(part_ids[i], claim_nos[i]);
    end loop;
    -- In a later statement than the locks: a part may have moved to other tables until then.
    tables := array(
        select p.table_no from unnest(part_ids) with ordinality u(part_id, n)
        left join trunkline.queue_part p on p.part_id = u.part_id and p.queue_id = queue_settle.queue_id order by u.n);
    for i in 1 .. cardinality(claim_nos) loop
        is_done := false;
        if tables[i] is not null then
            execute format('select trunkline.claim_%s_settle($1, $2, $3, $4, $5, $6, $7, $8)', tables[i]) into is_done
            using part_ids[i], claim_nos[i], tokens[i], seqs[i], kinds[i]::"char", offsets[i]::int8multirange,
                coalesce(delays[i], 0), is_ordered;
        end if;
        if not is_done then
            lost := lost || i;
        end if;
    end loop;
    return lost;
end $$;
