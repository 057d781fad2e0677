-- How many offsets a set has.
-- grants: none
create function trunkline.offsets_count(offsets int8multirange) returns bigint
language sql immutable
as $$ select coalesce(sum(upper(r) - lower(r)), 0)::bigint from unnest(offsets) r $$;
