-- Publishes one record, from psql or any language, in the caller's transaction:
--     select * from trunkline.log_publish('orders', 'hello', key => '42', headers => '{"source": "web"}');
-- headers: an object of text values, or an array of [name, value] pairs where a name repeats. The partition is the
-- key's, else the given one, else any. Holds the partition's lock until the transaction ends, so end it soon.
-- locks, errors: as log_append
-- grants: producer
create function trunkline.log_publish(
    topic text, payload bytea, key bytea default null, headers jsonb default null, partition integer default null,
    out at_partition integer, out at_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id     constant integer := trunkline.topic_id_of(topic);
    pairs  jsonb := headers;
    counts integer[];
    names  text[];
    texts  text[];
    n      constant integer := (select t.partitions from trunkline.topic t where t.topic_id = id);
begin
    at_partition := coalesce(partition,
        case when key is not null then trunkline.partition_of_key(key, n) else floor(random() * n)::integer end);
    if jsonb_typeof(headers) = 'object' then
        pairs := (select coalesce(jsonb_agg(jsonb_build_array(e.key, e.value)), '[]') from jsonb_each(headers) e);
    end if;
    if headers is not null then
        if jsonb_typeof(pairs) <> 'array' or exists (
            select from jsonb_array_elements(pairs) p where jsonb_typeof(p) <> 'array' or jsonb_array_length(p) <> 2
                or jsonb_typeof(p -> 0) <> 'string' or jsonb_typeof(p -> 1) <> 'string') then
            raise exception 'headers must be an object of strings, or an array of [name, value] pairs of strings'
                using errcode = 'TL001';
        end if;
        select array_agg(p.pair ->> 0 order by p.n), array_agg(p.pair ->> 1 order by p.n), array[count(*)::integer]
        into names, texts, counts from jsonb_array_elements(pairs) with ordinality p(pair, n);
    end if;
    select a.first_offsets[1] into at_offset from trunkline.log_append(id,
        case when key is not null and partition is null then n end, array[at_partition], array[1],
        case when key is not null then array[key] end, array[payload],
        counts, names, (select array_agg(convert_to(t.v, 'UTF8') order by t.n) from unnest(texts) with ordinality t(v, n)),
        null, null, null) a;
end $$;
