-- Publishes one record, from psql or any language, in the caller's transaction:
--     select * from trunkline.log_publish('orders', 'hello', key => '42', headers => '{"source": "web"}');
-- headers: an object of text values, or an array of [name, value] pairs where a name repeats. The partition is the
-- key's, else the given one, else any. Holds the partition's lock until the transaction ends, so end it soon; outbox_publish
-- does not, and gives the offset out later.
-- locks, errors: as log_append
-- grants: producer
create function trunkline.log_publish(
    topic text, payload bytea, key bytea default null, headers jsonb default null, partition integer default null,
    out at_partition integer, out at_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id    constant integer := trunkline.topic_id_of(topic);
    named constant record := trunkline.headers_of_json(headers);
    n     constant integer := (select t.partitions from trunkline.topic t where t.topic_id = id);
begin
    at_partition := coalesce(partition,
        case when key is not null then trunkline.partition_of_key(key, n) else floor(random() * n)::integer end);
    select a.first_offsets[1] into at_offset from trunkline.log_append(id,
        case when key is not null and partition is null then n end, array[at_partition], array[1],
        case when key is not null then array[key] end, array[payload],
        named.counts, named.names, named.values, null, null, null) a;
end $$;
