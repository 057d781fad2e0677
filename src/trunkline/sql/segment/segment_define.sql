-- Makes, or makes again, the function through which batches enter one segment: segment_<id>_append. It is the hot
-- path of publishing, and a function of its own so that its plans are cached; a dynamic statement would be planned
-- each time, which costs more than the insert.
--
-- It appends one batch to one partition if nothing is unusual, and leaves everything else (a newer segment, a new
-- producer, a repeated sequence, a limit that must be looked at closely, an error) to log_append_closely, which
-- calls it again with `checked` and what it found. So any segment's function may be called for a partition: one
-- that is no longer current is only slower. open_segment_id says which one to call next time.
-- Arguments and promises are those of log_append, for one partition, by its id.
-- grants: none
create function trunkline.segment_define(segment_id integer) returns void
language plpgsql volatile
as $define$
declare
    grantee record;
begin
    execute format($function$
create or replace function trunkline.%1$I(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer,
    known_last integer default null, checked boolean default false,
    out first_offset bigint, out open_segment_id integer, out is_full boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $body$
declare
    place record;
    tip   record;
    last  integer;
    xid   bigint;
begin
    -- Few and large expressions: each costs a little in every transaction.
    if not checked and (record_count = cardinality(payloads) and array_ndims(payloads) = 1
        and array_position(payloads, null) is null and (keys is null or cardinality(keys) = record_count)
        and (producer_id is null or (producer_epoch >= 0 and sequence > 0))
        and (header_counts is not null or (header_names is null and header_values is null))
        and current_setting('transaction_isolation') = 'read committed'
        and current_setting('synchronous_commit') <> 'off'
        and current_setting('max_prepared_transactions') = '0') is not true then
        select * into first_offset, open_segment_id, is_full from trunkline.log_append_closely(
            partition_id, expected_partitions, record_count, keys, payloads, header_counts, header_names,
            header_values, producer_id, producer_epoch, sequence);
        return;
    end if;
    if not pg_try_advisory_xact_lock(trunkline.lock_class(), partition_id) then
        perform trunkline.lock_wait(trunkline.lock_class(), partition_id);
    end if;

    -- In a later statement than the lock, so that its snapshot has what the last holder committed.
    select p.partition, sp.first_offset, sp.time_floor, sp.transaction_id, sp.transaction_count, r.producer_no, t.open_segment_id,
        t.segment_bytes,
        coalesce(%1$I.known_last, case when r.first_segment_id = t.open_segment_id then 0 end) as known_last,
        sp.first_offset is not null and (checked or t.open_segment_id = %3$s)
            and (%1$I.producer_id is null or r.epoch = producer_epoch)
            and (checked or (t.partitions = coalesce(expected_partitions, t.partitions)
                and %1$I.record_count <= t.batch_records_max
                and pg_column_size(%1$I.payloads) <= least(t.record_bytes_max, t.batch_bytes_max)
                and coalesce(pg_column_size(%1$I.keys), 0) <= t.key_bytes_max
                and (%1$I.header_counts is null or trunkline.headers_fit(%1$I.record_count,
                    %1$I.header_counts, %1$I.header_names, %1$I.header_values,
                    t.header_count_max, t.header_bytes_max)))) as ready
    into place from trunkline.topic_partition p
    join trunkline.topic t on t.topic_id = p.topic_id
    left join trunkline.segment_partition sp on sp.partition_id = p.partition_id
        -- Once checked, the partition is in this segment, and stays there while its lock is held, even if a roll has
        -- opened the next one in the meantime.
        and sp.segment_id = case when checked then %3$s else t.open_segment_id end
    left join lateral (
        select o.producer_no, o.epoch, o.first_segment_id from trunkline.producer o
        where o.partition_id = p.partition_id and o.producer_id = %1$I.producer_id
        order by o.epoch desc limit 1) r on true
    where p.partition_id = %1$I.partition_id;
    if place.ready then
        select b.first_offset + b.record_count as next_offset, b.append_time, b.transaction_id,
            b.transaction_count, b.producer_no, b.producer_sequence
        into tip from trunkline.%2$I b
        where b.partition = place.partition order by b.first_offset desc limit 1;
        if tip.next_offset is null then
            tip.next_offset := place.first_offset;
            tip.append_time := place.time_floor;
            tip.transaction_id := place.transaction_id;
            tip.transaction_count := place.transaction_count;
        end if;
        if place.producer_no is not null then
            last := tip.producer_sequence;
            if tip.producer_no is distinct from place.producer_no then
                select b.producer_sequence into last from trunkline.%2$I b
                where b.producer_no = place.producer_no order by b.producer_sequence desc limit 1;
            end if;
        end if;
    end if;
    if (place.ready and (place.producer_no is null or sequence = coalesce(last, place.known_last) + 1)) is not true then
        if checked then
            raise exception 'segment %3$s cannot take a batch of partition %%', partition_id
                using errcode = 'TL011', hint = 'this must never happen; please report it';
        end if;
        select * into first_offset, open_segment_id, is_full from trunkline.log_append_closely(
            partition_id, expected_partitions, record_count, keys, payloads, header_counts, header_names,
            header_values, producer_id, producer_epoch, sequence);
        return;
    end if;

    xid := pg_current_xact_id()::text::bigint;
    first_offset := tip.next_offset;
    insert into trunkline.%2$I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
        transaction_ordinal, transaction_count, byte_count, producer_no, producer_sequence,
        keys, payloads, header_counts, header_names, header_values)
    values (%1$I.first_offset, greatest(tip.append_time, trunkline.clock_now()),
        trunkline.random_bigint(), xid, place.partition, %1$I.record_count,
        case when tip.transaction_id = xid then tip.transaction_count else 0 end,
        case when tip.transaction_id = xid then tip.transaction_count else 0 end + %1$I.record_count,
        pg_column_size(%1$I.payloads) + coalesce(pg_column_size(%1$I.keys), 0)
            + coalesce(pg_column_size(%1$I.header_names), 0) + coalesce(pg_column_size(%1$I.header_values), 0),
        place.producer_no, sequence,
        %1$I.keys, %1$I.payloads, %1$I.header_counts, %1$I.header_names, %1$I.header_values);
    open_segment_id := %3$s;
    -- Looking at files costs more than a small publish: by chance, about 64 times while a segment fills.
    is_full := random() * place.segment_bytes < pg_column_size(payloads)::bigint * 64
        and trunkline.segment_is_full(%3$s);
end $body$
$function$, 'segment_' || segment_id || '_append', 'segment_' || segment_id, segment_id);
    execute format('revoke all on function trunkline.%I from public', 'segment_' || segment_id || '_append');
    for grantee in select g.role_name from trunkline.grantee g where g.kind in ('producer', 'admin') loop
        execute format('grant execute on function trunkline.%I to %I',
            'segment_' || segment_id || '_append', grantee.role_name);
    end loop;
end $define$;
