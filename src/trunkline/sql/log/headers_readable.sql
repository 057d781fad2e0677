-- Headers as JSON, in their order, repeated names included: [["name", "value"], …].
-- grants: none
create function trunkline.headers_readable(names text[], "values" bytea[]) returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(jsonb_build_array(h.name, trunkline.bytes_readable(h.value)) order by h.n), '[]')
    from unnest(names, "values") with ordinality h(name, value, n)
$$;
