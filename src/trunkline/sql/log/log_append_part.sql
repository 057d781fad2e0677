-- Appends one batch to one partition, by its id, through the function of the segment that is open: what log_append and
-- the commit of an outbox share. Returns what that function returns.
-- locks: the partition, until the transaction ends
-- errors: those of log_append
-- grants: none
create function trunkline.log_append_part(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer)
returns bigint[]
language plpgsql volatile
as $$
declare
    place    record;
    appended bigint[];
begin
    -- Before the open segment is looked up: while the lock is held it cannot be sealed, so its function stays.
    if not pg_try_advisory_xact_lock(trunkline.lock_class(), partition_id) then
        perform trunkline.lock_wait(trunkline.lock_class(), partition_id);
    end if;
    select t.open_segment_id, to_regproc('trunkline.segment_' || t.open_segment_id || '_append') is null as is_gone
    into place
    from trunkline.topic_partition p join trunkline.topic t using (topic_id)
    where p.partition_id = log_append_part.partition_id;
    if not found then
        raise exception 'the topic was deleted' using errcode = 'TL002',
            hint = 'create it with topic_create or `trunkline topic create`';
    elsif place.is_gone then
        -- An old snapshot still names a segment that has been dropped.
        raise exception 'the partition was written after this transaction''s snapshot' using errcode = '40001',
            hint = 'run the transaction again, or publish in READ COMMITTED, which does not meet this';
    end if;
    execute format('select trunkline.%I($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)',
            'segment_' || place.open_segment_id || '_append')
        into appended
        using partition_id, expected_partitions, record_count, keys, payloads, header_counts, header_names,
            header_values, producer_id, producer_epoch, sequence;
    return appended;
end $$;
