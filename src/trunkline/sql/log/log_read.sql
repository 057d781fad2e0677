-- Reads whole batches of one partition, from the one that holds `start` on, in order and without a gap, until
-- max_records or bytes_max is reached. A batch that would pass bytes_max is left for the next call; the first one
-- comes always.
-- With merge_small, a run of many small batches comes as one row: first_offset and record_count are of the run,
-- append_times and transaction_ids say what each record has, and what belongs to one batch alone is null.
-- Returns no row where start is the end of the log. Writes nothing, and takes no lock that a publisher needs.
-- errors: TL001 TL002, TL005 outside the log (detail: the valid range, "[start, end)"), TL011, 40001 where a
--     REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_read(
    topic_id integer, partition integer, start bigint, max_records integer, bytes_max bigint,
    merge_small boolean default false)
returns table (
    first_offset bigint, record_count integer, append_time timestamptz, batch_id bigint,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    transaction_id bigint, transaction_ordinal integer, transaction_count integer,
    append_times timestamptz[], transaction_ids bigint[])
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    segment  record;
    look     record;
    cut      record;
    batch    record;
    here     bigint := start;    -- the next offset to return
    bytes    bigint := bytes_max;
begin
    if max_records is null or max_records < 1 or bytes_max is null or bytes_max < 1 then
        raise exception 'max_records and bytes_max must be at least 1' using errcode = 'TL001';
    end if;
    for segment in select * from trunkline.log_segments(topic_id, partition, start) loop
        begin
            look := trunkline.segment_look(segment.segment_id, partition, here);
        exception when undefined_table then
            -- Dropped after the catalogue was read: what it says now is an error, or a shorter answer.
            if here > start then
                return;
            end if;
            perform trunkline.log_segments(topic_id, partition, start);
            raise exception 'records of this transaction''s snapshot have been dropped by retention'
                using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';
        end;
        while merge_small and look.is_small loop
            -- Small columns first, to find out where to stop; then, in a further statement, the records: a batch once
            -- seen is never changed.
            cut := trunkline.segment_cut(segment.segment_id, partition, here, start + max_records - here, bytes,
                2048, here = start);
            exit when cut.seen = 0;
            if cut.first_offset > here or cut.next_offset - cut.first_offset <> cut.records then
                perform trunkline.log_raise_gap(segment.segment_id, partition, here);
            elsif cut.batches > 0 then
                return query select * from trunkline.segment_merge(
                    segment.segment_id, partition, cut.first_offset, cut.last_batch, cut.batches, cut.fit_next);
                here := cut.fit_next;
                bytes := bytes - cut.fit_bytes;
            end if;
            if cut.batches < cut.seen or here >= start + max_records or bytes <= 0 then
                return;
            end if;
            look := trunkline.segment_look(segment.segment_id, partition, here);
        end loop;
        for batch in execute format(
            'select b.first_offset, b.record_count, b.append_time, b.batch_id, b.keys, b.payloads,
                 b.header_counts, b.header_names, b.header_values,
                 b.transaction_id, b.transaction_ordinal, b.transaction_count, b.byte_count
             from trunkline.%I b
             where b.partition = $1 and b.record_count > 0 and b.first_offset >= $2
             order by b.first_offset', 'segment_' || segment.segment_id) using partition, look.first_offset loop
            if batch.first_offset > here or (here > start and batch.first_offset < here) then
                perform trunkline.log_raise_gap(segment.segment_id, partition, here);
            elsif here > start and (batch.first_offset >= start + max_records or batch.byte_count > bytes) then
                return;
            end if;
            first_offset := batch.first_offset; record_count := batch.record_count;
            append_time := batch.append_time; batch_id := batch.batch_id;
            keys := batch.keys; payloads := batch.payloads;
            header_counts := batch.header_counts; header_names := batch.header_names;
            header_values := batch.header_values;
            transaction_id := batch.transaction_id; transaction_ordinal := batch.transaction_ordinal;
            transaction_count := batch.transaction_count;
            return next;
            here := batch.first_offset + batch.record_count;
            bytes := bytes - batch.byte_count;
        end loop;
        if here > start and (here >= start + max_records or bytes <= 0) then
            return;
        elsif segment.next_first <> here and (here > start or segment.next_first < here) then
            perform trunkline.log_raise_gap(segment.segment_id, partition, here);
        end if;
    end loop;
    if here = start and start > (select r."end" from trunkline.log_range(topic_id, partition) r) then
        perform trunkline.log_raise_outside(topic_id, partition, start);
    end if;
end $$;
