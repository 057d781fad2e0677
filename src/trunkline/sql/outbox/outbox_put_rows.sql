-- Publishes rows of a table in the caller's transaction, in their order: each goes to the partition of its key, those
-- without a key to any one. A group key is kept as the header trunkline-group-key.
-- locks, errors: as outbox_put
-- grants: admin
create function trunkline.outbox_put_rows(
    topic_id integer, incarnation bigint, partitions integer, keys bytea[], payloads bytea[], group_keys bytea[],
    headers jsonb[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    any_partition constant integer := floor(random() * partitions)::integer;
    has_headers   constant boolean := num_nonnulls(variadic group_keys) + num_nonnulls(variadic headers) > 0;
    part          record;
    counts        integer[];
    names         text[];
    "values"      bytea[];
    named         record;
    place         integer;
begin
    for part in
        select r.partition, array_agg(r.key order by r.n) as keys, array_agg(r.payload order by r.n) as payloads,
            array_agg(r.n::integer order by r.n) as places, bool_or(r.key is not null) as is_keyed
        from (
            select case when u.key is null then any_partition
                else trunkline.partition_of_key(u.key, outbox_put_rows.partitions) end as partition, u.*
            from unnest(outbox_put_rows.keys, outbox_put_rows.payloads) with ordinality u(key, payload, n)) r
        group by r.partition order by r.partition
    loop
        if has_headers then
            counts := '{}';
            names := '{}';
            "values" := '{}';
            foreach place in array part.places loop
                named := trunkline.headers_of_json(headers[place]);
                counts := counts
                    || (coalesce(named.counts[1], 0) + case when group_keys[place] is null then 0 else 1 end);
                names := names || named.names;
                "values" := "values" || named."values";
                if group_keys[place] is not null then
                    names := array_append(names, 'trunkline-group-key');
                    "values" := array_append("values", group_keys[place]);
                end if;
            end loop;
        end if;
        if cardinality(part.payloads) = 1 and not has_headers then
            perform trunkline.outbox_put_one(topic_id, incarnation, case when part.is_keyed then partitions end,
                part.partition, part.keys[1], part.payloads[1]);
        else
            perform trunkline.outbox_put(topic_id, incarnation, case when part.is_keyed then partitions end,
                array[part.partition], array[cardinality(part.payloads)],
                case when part.is_keyed then part.keys end, part.payloads, counts, names, "values");
        end if;
    end loop;
end $$;
