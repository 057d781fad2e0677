-- Which of these keys wait for a redrive, each in the partition of its cursor: their places in the arrays, from 1 on,
-- and the first offset that waits. Whoever holds the partition asks in the transaction that moves the cursor: nobody
-- else parks anything there.
-- errors: TL001
-- grants: consumer
create function trunkline.parked_find(cursor_ids integer[], keys bytea[], group_keys bytea[])
returns table (place integer, first_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    if (cardinality(keys) = cardinality(cursor_ids) and cardinality(group_keys) = cardinality(cursor_ids)) is not true then
        raise exception 'cursors and keys must be as many' using errcode = 'TL001';
    end if;
    return query
        select u.n::integer, p.record_offset
        from unnest(cursor_ids, keys, group_keys) with ordinality u(cursor_id, key, group_key, n)
        cross join lateral (
            select x.record_offset from trunkline.group_parked x
            where x.cursor_id = u.cursor_id and x.key_id = trunkline.parked_key_id(u.key, u.group_key)
            order by x.record_offset limit 1) p;
end $$;
