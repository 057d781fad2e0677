-- The lowest offsets of a set, at most so many.
-- grants: none
create function trunkline.offsets_head(offsets int8multirange, most bigint) returns int8multirange
language sql immutable
as $$
    select coalesce(range_agg(int8range(lower(u.r), least(upper(u.r), lower(u.r) + most - u.before))), '{}')
    from (
        select r, coalesce(sum(upper(r) - lower(r)) over (
            order by lower(r) rows between unbounded preceding and 1 preceding), 0)::bigint as before
        from unnest(offsets) r) u
    where u.before < most
$$;
