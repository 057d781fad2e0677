-- Reads whole batches of one partition, from the one that holds `start` on, in order and without a gap, until
-- max_records or bytes_max is reached. A batch that would pass bytes_max is left for the next call; the first one
-- comes always.
-- Returns no row where start is the end of the log. Writes nothing, and takes no lock that a publisher needs.
-- errors: TL001 TL002, TL005 outside the log (detail: the valid range, "[start, end)"), TL011, 40001 where a
--     REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_read(
    topic_id integer, partition integer, start bigint, max_records integer, bytes_max bigint)
returns table (
    first_offset bigint, record_count integer, append_time timestamptz, batch_id bigint,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    transaction_id bigint, transaction_ordinal integer, transaction_count integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    segment  record;
    cut      record;
    here bigint := start;    -- the next offset to return
    records  bigint := max_records;
    bytes    bigint := bytes_max;
    at_once  integer;
    returned bigint;
begin
    if max_records is null or max_records < 1 or bytes_max is null or bytes_max < 1 then
        raise exception 'max_records and bytes_max must be at least 1' using errcode = 'TL001';
    end if;
    for segment in select * from trunkline.log_segments(topic_id, partition, start) loop
        at_once := 16;
        loop
            begin
                cut := trunkline.segment_cut(segment.segment_id, partition, here, records, bytes, at_once,
                    here = start);
            exception when undefined_table then
                -- Dropped after the catalogue was read: what it says now is an error, or a shorter answer.
                if here > start then
                    return;
                end if;
                perform trunkline.log_segments(topic_id, partition, start);
                raise exception 'records of this transaction''s snapshot have been dropped by retention'
                    using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';
            end;
            exit when cut.seen = 0;
            if cut.first_offset > here or cut.next_offset - cut.first_offset <> cut.records then
                raise exception 'segment % has a gap in partition % at or after offset %',
                    segment.segment_id, partition, here
                    using errcode = 'TL011', hint = 'this must never happen; please report it';
            elsif cut.batches = 0 then
                return;
            end if;
            -- In a further statement: a batch once seen is never changed.
            return query execute format(
                'select b.first_offset, b.record_count, b.append_time, b.batch_id, b.keys, b.payloads,
                     b.header_counts, b.header_names, b.header_values,
                     b.transaction_id, b.transaction_ordinal, b.transaction_count
                 from trunkline.%I b
                 where b.partition = $1 and b.first_offset between $2 and $3
                 order by b.first_offset', 'segment_' || segment.segment_id)
                using partition, cut.first_offset, cut.last_batch;
            get diagnostics returned = row_count;
            if returned <> cut.batches then
                raise exception 'segment % gave % batches of partition %, not %', segment.segment_id, returned,
                    partition, cut.batches
                    using errcode = 'TL011', hint = 'this must never happen; please report it';
            end if;
            records := records - (cut.fit_next - here);
            bytes := bytes - cut.fit_bytes;
            here := cut.fit_next;
            if cut.batches < cut.seen or records <= 0 or bytes <= 0 then
                return;
            end if;
            exit when cut.seen < at_once;
            at_once := least(at_once * 4, 4096);
        end loop;
        if segment.next_first <> here and here > start or segment.next_first < here then
            raise exception 'partition % ends at offset % in segment %, and goes on at %', partition, here,
                segment.segment_id, segment.next_first
                using errcode = 'TL011', hint = 'this must never happen; please report it';
        end if;
    end loop;
    if here = start and start > (select r."end" from trunkline.log_range(topic_id, partition) r) then
        perform trunkline.log_raise_outside(topic_id, partition, start);
    end if;
end $$;
