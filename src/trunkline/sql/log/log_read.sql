-- Reads whole batches of one partition, from the one that holds `start` on, in order and without a gap, until
-- max_records or bytes_max is reached. A batch that would pass bytes_max is left for the next call; the first one
-- comes always.
-- With merge_small, a run of many batches of one record comes as one row: first_offset and record_count are of the run,
-- append_times, joined and lengths have the records' times and payloads, and what belongs to one batch alone is null.
-- Returns no row where start is the end of the log. Writes nothing, and takes no lock that a publisher needs.
-- errors: TL001 TL002, TL005 outside the log (detail: the valid range, "[start, end)"), TL011, 40001 where a
--     REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_read(
    topic_id integer, partition integer, start bigint, max_records integer, bytes_max bigint,
    merge_small boolean default false)
returns setof trunkline.batch_row
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    segment  record;
    look     record;
    merged   trunkline.batch_row;
    batch    record;
    here     bigint := start;    -- the next offset to return
    bytes    bigint := bytes_max;
    counted  bigint;
    returned bigint;
    full_up  boolean := false;
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
        while merge_small and look.are_single and look.first_offset = here loop
            merged := trunkline.segment_merge(segment.segment_id, partition, here,
                least(start + max_records - here, bytes / look.bytes_each, 4096), look.bytes_each);
            exit when merged.record_count is null;
            return next merged;
            here := here + merged.record_count;
            bytes := bytes - merged.byte_count;
            if here >= start + max_records then
                return;
            end if;
            look := trunkline.segment_look(segment.segment_id, partition, here);
        end loop;
        -- Small columns first, to find out where to stop; then, in a further statement, the batches: one that was seen
        -- is never changed.
        counted := 0;
        for batch in execute format(
            'select b.first_offset, b.record_count, b.byte_count from trunkline.%I b
             where b.partition = $1 and b.record_count > 0 and b.first_offset >= $2
             order by b.first_offset', 'segment_' || segment.segment_id) using partition, look.first_offset loop
            if batch.first_offset > here or (here > start and batch.first_offset < here) then
                perform trunkline.log_raise_gap(segment.segment_id, partition, here);
            elsif here > start and (batch.first_offset >= start + max_records or batch.byte_count > bytes) then
                full_up := true;
                exit;
            end if;
            here := batch.first_offset + batch.record_count;
            bytes := bytes - batch.byte_count;
            counted := counted + 1;
        end loop;
        if counted > 0 then
            return query execute format(
                'select b.first_offset, b.record_count, b.append_time, b.batch_id, b.keys, b.payloads,
                     b.header_counts, b.header_names, b.header_values,
                     b.transaction_id, b.transaction_ordinal, b.transaction_count,
                     null::timestamptz[], null::bytea, null::integer[], b.byte_count::bigint
                 from trunkline.%I b
                 where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3 and b.record_count > 0
                 order by b.first_offset', 'segment_' || segment.segment_id)
                using partition, look.first_offset, here;
            get diagnostics returned = row_count;
            if returned <> counted then
                perform trunkline.log_raise_gap(segment.segment_id, partition, look.first_offset);
            end if;
        end if;
        if full_up then
            return;
        end if;
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
