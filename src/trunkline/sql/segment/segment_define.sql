-- Makes, or makes again, the function through which batches enter one segment: segment_<id>_append. It is the hot
-- path of publishing, and a function of its own so that its plans are cached, and so that what changes rarely (the
-- topic's limits, the numbers of its partitions, whether a newer segment is open, whether it rings) stands in its text. Whoever
-- changes one of these makes it again. A call may have begun with the old text: it may still honour a limit as it was,
-- but it never writes where it must not, because a partition that has moved on, or whose topic is gone or routed anew,
-- ends here with a closing row.
--
-- It appends one batch to one partition if nothing is unusual, and leaves everything else (a newer segment, a first
-- batch, a new producer, a repeated sequence, a limit that is passed, an error) to log_append_closely. So any segment's
-- function may be called for a partition: one that is no longer current is only slower.
-- Arguments and promises are those of log_append, for one partition, by its id.
-- Returns the first offset, the segment to call next time, and 1 if that was seen to be full, else 0.
-- grants: none
create function trunkline.segment_define(segment_id integer) returns void
language plpgsql volatile
as $define$
declare
    name    constant text := 'segment_' || segment_id || '_append';
    topic   record;
    grantee record;
begin
    select t.partitions, t.batch_records_max, t.record_bytes_max, t.batch_bytes_max, t.key_bytes_max,
        t.header_count_max, t.header_bytes_max, t.segment_bytes,
        case when t.notify_in_commit
            then format('perform trunkline.partition_ring(%s, place);', t.topic_id) else '' end as ring,
        not exists (select from trunkline.segment n
            where n.topic_id = s.topic_id and n.segment_id > s.segment_id) as is_open,
        array(select p.partition_id from trunkline.topic_partition p
            where p.topic_id = s.topic_id order by p.partition) as partition_ids
    into strict topic
    from trunkline.segment s join trunkline.topic t on t.topic_id = s.topic_id
    where s.segment_id = segment_define.segment_id;
    execute format($function$
create or replace function trunkline.%1$I(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer)
returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $body$
declare
    place    constant integer := array_position(%4$L::integer[], partition_id) - 1;
    producer constant bigint := trunkline.producer_number(producer_id, partition_id, producer_epoch);
    tip      record;
    follows  boolean;
begin
    -- Few and large expressions: each costs a little in every transaction.
    if (%5$L and place is not null
        and record_count = cardinality(payloads) and array_ndims(payloads) = 1 and array_lower(payloads, 1) = 1
        and array_position(payloads, null) is null
        and (keys is null or (cardinality(keys) = record_count and array_ndims(keys) = 1 and array_lower(keys, 1) = 1))
        and (producer_id is null or (producer_epoch >= 0 and sequence > 0))
        and (header_counts is not null or (header_names is null and header_values is null))
        and (expected_partitions is null or expected_partitions = %6$s)
        and record_count <= %7$s
        and (pg_column_size(payloads) <= least(%8$s, %9$s) or trunkline.bytes_fit(payloads, %8$s, %9$s))
        and (keys is null or pg_column_size(keys) <= %10$s or trunkline.bytes_fit(keys, %10$s))
        and (header_counts is null or trunkline.headers_fit(
            record_count, header_counts, header_names, header_values, %11$s, %12$s))
        and current_setting('transaction_isolation') = 'read committed'
        and current_setting('synchronous_commit') <> 'off'
        and current_setting('max_prepared_transactions') = '0') is not true then
        return trunkline.log_append_closely(partition_id, expected_partitions, record_count, keys, payloads,
            header_counts, header_names, header_values, producer_id, producer_epoch, sequence);
    end if;
    if not pg_try_advisory_xact_lock(trunkline.lock_class(), partition_id) then
        perform trunkline.lock_wait(trunkline.lock_class(), partition_id);
    end if;

    -- In a later statement than the lock, so that its snapshot has what the last holder committed.
    select b.first_offset + b.record_count as next_offset, b.append_time, b.transaction_id, b.transaction_count,
        b.producer_no, b.producer_sequence, b.record_count > 0 as is_open
    into tip from trunkline.%2$I b
    where b.partition = place order by b.first_offset desc limit 1;
    follows := tip.is_open and (producer is null
        or (tip.producer_no = producer and tip.producer_sequence = sequence - 1));
    if follows is not true and tip.is_open and tip.producer_no is distinct from producer then
        -- Somebody else wrote last. Where no newer epoch of this producer has, its own last batch counts.
        select b.producer_sequence = sequence - 1 and not exists (
            select from trunkline.producer r where r.partition_id = %1$I.partition_id
                and r.producer_id = %1$I.producer_id and r.epoch > %1$I.producer_epoch)
        into follows from trunkline.%2$I b
        where b.producer_no = producer order by b.producer_sequence desc limit 1;
    end if;
    if follows is not true then
        return trunkline.log_append_closely(partition_id, expected_partitions, record_count, keys, payloads,
            header_counts, header_names, header_values, producer_id, producer_epoch, sequence);
    end if;

    insert into trunkline.%2$I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
        transaction_ordinal, transaction_count, byte_count, producer_no, producer_sequence,
        keys, payloads, header_counts, header_names, header_values)
    values (tip.next_offset, greatest(tip.append_time, trunkline.clock_now()),
        trunkline.random_bigint(), pg_current_xact_id()::text::bigint, place, %1$I.record_count,
        case when tip.transaction_id = pg_current_xact_id()::text::bigint then tip.transaction_count else 0 end,
        case when tip.transaction_id = pg_current_xact_id()::text::bigint then tip.transaction_count else 0 end
            + %1$I.record_count,
        pg_column_size(%1$I.payloads) + coalesce(pg_column_size(%1$I.keys), 0)
            + coalesce(pg_column_size(%1$I.header_names), 0) + coalesce(pg_column_size(%1$I.header_values), 0),
        producer, sequence,
        %1$I.keys, %1$I.payloads, %1$I.header_counts, %1$I.header_names, %1$I.header_values);
    %14$s
    -- Looking at files costs more than a small publish: by chance, about 64 times while a segment fills.
    return array[tip.next_offset, %3$s, (random() * %13$s < pg_column_size(payloads)::bigint * 64
        and trunkline.segment_is_full(%3$s))::integer];
end $body$
$function$, name, 'segment_' || segment_id, segment_id, topic.partition_ids, topic.is_open, topic.partitions,
        topic.batch_records_max, topic.record_bytes_max, topic.batch_bytes_max, topic.key_bytes_max,
        topic.header_count_max, topic.header_bytes_max, topic.segment_bytes, topic.ring);
    execute format('revoke all on function trunkline.%I from public', name);
    for grantee in select g.role_name from trunkline.grantee g where g.kind in ('producer', 'admin') loop
        execute format('grant execute on function trunkline.%I to %I', name, grantee.role_name);
    end loop;
end $define$;
