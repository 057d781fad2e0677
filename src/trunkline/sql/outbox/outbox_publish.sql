-- Publishes one record in the caller's transaction, from psql or any language, without holding up others until it
-- commits: then the record gets its offset.
--     select trunkline.outbox_publish('orders', 'hello', key => '42', headers => '{"source": "web"}');
-- headers: an object of text values, or an array of [name, value] pairs where a name repeats. The partition is the
-- key's, else the given one, else any. group_key is kept as the header trunkline-group-key. Returns the partition.
-- locks, errors: as outbox_put
-- grants: producer
create function trunkline.outbox_publish(
    topic text, payload bytea, key bytea default null, headers jsonb default null, partition integer default null,
    group_key bytea default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id           constant integer := trunkline.topic_id_of(topic);
    named        record := trunkline.headers_of_json(headers);
    found_topic  record;
    at_partition integer;
begin
    select t.partitions, t.incarnation into found_topic from trunkline.topic t where t.topic_id = id;
    at_partition := coalesce(partition, case when key is not null
        then trunkline.partition_of_key(key, found_topic.partitions) else floor(random() * found_topic.partitions)::integer end);
    if group_key is not null then
        named.counts := array[coalesce(named.counts[1], 0) + 1];
        named.names := array_append(named.names, 'trunkline-group-key');
        named.values := array_append(named.values, group_key);
    end if;
    if named.counts is null then
        perform trunkline.outbox_put_one(id, found_topic.incarnation,
            case when key is not null and partition is null then found_topic.partitions end, at_partition, key, payload);
    else
        perform trunkline.outbox_put(id, found_topic.incarnation,
            case when key is not null and partition is null then found_topic.partitions end, array[at_partition],
            array[1], case when key is not null then array[key] end, array[payload], named.counts, named.names,
            named.values);
    end if;
    return at_partition;
end $$;
