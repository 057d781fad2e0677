-- Publishes records of a topic to a dead letter topic, with their keys, headers and payloads, and where they stood. What
-- is too large for that topic is left out, and named in a header.
-- locks: partitions of the dead letter topic
-- errors: TL002 where there is no such topic, and those of log_append
-- grants: none
create function trunkline.queue_bury(
    dead_letter text, topic_id integer, partition integer, first bigint, count bigint, reason text) returns void
language plpgsql volatile
as $$
declare
    target record;
    rec    record;
    names  text[];
    vals   bytea[];
    cut    text;
begin
    select t.topic_id, t.name, t.partitions, t.header_count_max, t.header_bytes_max,
        least(t.record_bytes_max, t.batch_bytes_max) as bytes_max
    into target from trunkline.topic t where t.topic_id = trunkline.topic_id_of(dead_letter);
    for rec in
        select r.*, (select t.name from trunkline.topic t where t.topic_id = queue_bury.topic_id) as topic
        from trunkline.log_records(topic_id, partition, first, count::integer) r
    loop
        cut := null;
        if octet_length(rec.payload) > target.bytes_max then
            cut := format('a payload of %s bytes', octet_length(rec.payload));
            rec.payload := '';
        end if;
        select array_agg(h.name order by h.n), array_agg(h.value order by h.n) into names, vals
        from unnest(rec.header_names, rec.header_values) with ordinality h(name, value, n)
        where h.name not like 'trunkline-dl-%';
        if cardinality(names) + 7 > target.header_count_max
            or exists (select from unnest(names, vals) u(n, v)
                where greatest(octet_length(u.n), octet_length(u.v)) > target.header_bytes_max) then
            cut := concat_ws(', ', cut, cardinality(names) || ' headers');
            names := null;
            vals := null;
        end if;
        names := names || array['trunkline-dl-topic', 'trunkline-dl-partition', 'trunkline-dl-offset',
            'trunkline-dl-attempts', 'trunkline-dl-reason', 'trunkline-dl-time'];
        vals := vals || array[convert_to(rec.topic, 'UTF8'), convert_to(partition::text, 'UTF8'),
            convert_to(rec."offset"::text, 'UTF8'), '0', convert_to(reason, 'UTF8'),
            convert_to(to_char(trunkline.clock_now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), 'UTF8')];
        if cut is not null then
            names := names || 'trunkline-dl-cut'::text;
            vals := vals || convert_to(cut, 'UTF8');
        end if;
        perform trunkline.log_append(target.topic_id, null,
            array[case when rec.key is null then (rec."offset" % target.partitions)::integer
                else trunkline.partition_of_key(rec.key, target.partitions) end], array[1],
            case when rec.key is not null then array[rec.key] end, array[rec.payload],
            array[cardinality(names)], names, vals, null, null, null);
    end loop;
end $$;
