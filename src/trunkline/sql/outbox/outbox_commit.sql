-- Called by the commit of a transaction that has published, in its second turn: takes what it has put down from the
-- stage and appends it, partition by partition in ascending order, to each as one batch, or a few where that would be
-- over the topic's limits.
-- locks: each partition, in ascending order, until the transaction ends
-- errors: those of log_append
-- grants: none
create or replace function trunkline.outbox_commit() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    is_free   boolean;
    place     record;
    stage     record;
    partition integer;
    first     bigint;
    last      bigint;
    records   bigint;
    bytes     bigint;
begin
    -- Null where it has put down more than this. Then nothing may be locked yet.
    is_free := case when exists (select from trunkline.outbox_stage s where s.transaction_id = old.transaction_id)
        then null else pg_try_advisory_xact_lock(trunkline.lock_class(), old.partition_id) end;
    if is_free is not null then
        -- One batch, as nearly always: it stands in the row that the first turn took from the stage.
        if not is_free then
            perform trunkline.lock_wait(trunkline.lock_class(), old.partition_id);
        end if;
        -- In a later statement than the lock: while that is held, the open segment cannot be sealed.
        select t.open_segment_id, p.partition into place
        from trunkline.topic_partition p join trunkline.topic t using (topic_id)
        where p.partition_id = old.partition_id
            and (old.expected_partitions is null or old.expected_partitions = t.partitions)
            and not t.notify_in_commit
            and current_setting('transaction_isolation') = 'read committed'
            and current_setting('synchronous_commit') <> 'off'
            and current_setting('max_prepared_transactions') = '0';
        if found then
            execute format('call trunkline.%I($1, $2)', 'segment_' || place.open_segment_id || '_take')
                using old, place.partition;
        else
            perform trunkline.log_append_part(old.partition_id, old.expected_partitions, old.record_count, old.keys,
                old.payloads, old.header_counts, old.header_names, old.header_values, null, null, null);
        end if;
        return null;
    end if;
    insert into trunkline.outbox_stage (transaction_id, ordinal, partition_id, expected_partitions, record_count,
        is_head, keys, payloads, header_counts, header_names, header_values)
    overriding system value
    values (old.transaction_id, old.ordinal, old.partition_id, old.expected_partitions, old.record_count,
        false, old.keys, old.payloads, old.header_counts, old.header_names, old.header_values);
    -- Another head is there where something deferred has published between the two turns. It goes with this one.
    update trunkline.outbox_stage s set is_head = false where s.transaction_id = old.transaction_id and s.is_head;
    for stage in
        select s.partition_id, s.ordinal, s.record_count, t.batch_records_max, t.batch_bytes_max,
            pg_column_size(s.payloads) as byte_count
        from trunkline.outbox_stage s
        left join trunkline.topic_partition p using (partition_id) left join trunkline.topic t using (topic_id)
        where s.transaction_id = old.transaction_id
        order by s.partition_id, s.ordinal
    loop
        if stage.partition_id = partition and records + stage.record_count <= stage.batch_records_max
            and bytes + stage.byte_count <= stage.batch_bytes_max then
            last := stage.ordinal;
            records := records + stage.record_count;
            bytes := bytes + stage.byte_count;
            continue;
        end if;
        perform trunkline.outbox_append(old.transaction_id, partition, first, last);
        partition := stage.partition_id;
        first := stage.ordinal;
        last := stage.ordinal;
        records := stage.record_count;
        bytes := stage.byte_count;
    end loop;
    perform trunkline.outbox_append(old.transaction_id, partition, first, last);
    return null;
end $$;
