-- Whether flat headers are well formed, one count a record, and within a topic's limits.
-- grants: none
create function trunkline.headers_fit(
    record_count integer, header_counts integer[], header_names text[], header_values bytea[],
    header_count_max integer, header_bytes_max integer) returns boolean
language sql immutable
as $$
    select cardinality(header_counts) = record_count and array_position(header_counts, null) is null
        and coalesce(cardinality(header_names), 0) = coalesce(cardinality(header_values), 0)
        and array_position(header_names, null) is null and array_position(header_values, null) is null
        and (select sum(n) = coalesce(cardinality(header_names), 0) and min(n) >= 0 and max(n) <= header_count_max
             from unnest(header_counts) n)
        and (pg_column_size(header_names) <= header_bytes_max and pg_column_size(header_values) <= header_bytes_max
            or (select max(greatest(octet_length(h.name), octet_length(h.value))) <= header_bytes_max
                from unnest(header_names, header_values) h(name, value)))
$$;
