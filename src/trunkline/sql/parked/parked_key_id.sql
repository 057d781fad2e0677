-- A key of two parts as one value that fits into an index; a part that is missing is not one that is empty.
-- grants: none
create function trunkline.parked_key_id(key bytea, group_key bytea) returns bytea
language sql immutable
as $$
    select sha256(int4send(coalesce(length(key), -1)) || coalesce(key, '') || int4send(coalesce(length(group_key), -1))
        || coalesce(group_key, ''))
$$;
