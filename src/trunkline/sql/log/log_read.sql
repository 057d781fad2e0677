-- Reads whole batches of one partition, from the one that holds `start` on, in order and without a gap, until
-- max_records or bytes_max is reached. A batch that would pass bytes_max is left for the next call; the first one
-- comes always.
-- With merge_small, a run of many batches of one record comes as one row: first_offset and record_count are of the run,
-- append_times, joined and lengths have the records' times and payloads, and what belongs to one batch alone is null.
-- With tell_left (by default as merge_small), where a batch was left for the next call, a last row without records says
-- so. Otherwise an answer that reaches neither limit ends where the log ended, never inside a transaction.
-- Returns no row where start is the end of the log. Writes nothing, and takes no lock that a publisher needs.
-- errors: TL001 TL002, TL005 outside the log (detail: the valid range, "[start, end)"), TL011, 40001 where a
--     REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_read(
    topic_id integer, partition integer, start bigint, max_records integer, bytes_max bigint,
    merge_small boolean default false, tell_left boolean default null)
returns setof trunkline.batch_row
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    stop      bigint;             -- the first offset that is not asked for
    place     record;
    following record;
    batch     trunkline.batch_row;
    here      bigint := start;    -- the next offset to return
    bytes     bigint := bytes_max;
    reached   bigint;             -- how far the segment is known to go
    ended     boolean;            -- whether the segment goes no further
    single    bigint;             -- the size of a batch of one record with which a run may begin
    most      integer;            -- and how many records it may have
    before    bigint;
    may_merge boolean := coalesce(merge_small, false);
begin
    if max_records is null or max_records < 1 or bytes_max is null or bytes_max < 1 then
        raise exception 'max_records and bytes_max must be at least 1' using errcode = 'TL001';
    end if;
    stop := least(start, 9223372036854775807 - max_records) + max_records;
    place := trunkline.log_place(topic_id, partition, start);
    loop
        reached := null;
        ended := false;
        single := null;
        begin
            -- From the batch that holds the offset, or ends before it, on. Arrays come as they lie in the table, most of
            -- them as references; what is not returned is never fetched.
            for batch in execute format(
                'select b.first_offset, b.record_count, b.append_time, b.batch_id, b.keys, b.payloads,
                     b.header_counts, b.header_names, b.header_values,
                     b.transaction_id, b.transaction_ordinal, b.transaction_count,
                     null::timestamptz[], null::bytea, null::integer[], b.byte_count::bigint
                 from trunkline.%1$I b
                 where b.partition = $1 and b.first_offset < $3 and b.first_offset >= coalesce((
                     select x.first_offset from trunkline.%1$I x
                     where x.partition = $1 and x.first_offset <= $2 order by x.first_offset desc limit 1), $2)
                 order by b.first_offset', 'segment_' || place.segment_id) using partition, here, stop loop
                if batch.first_offset <> reached or batch.first_offset > here then
                    perform trunkline.log_raise_gap(place.segment_id, partition, coalesce(reached, here));
                end if;
                reached := batch.first_offset + batch.record_count;
                if batch.record_count = 0 then
                    ended := true;
                elsif reached > here then
                    if here > start and batch.byte_count > bytes then
                        if coalesce(tell_left, merge_small) then
                            batch := null;
                            batch.first_offset := here;
                            batch.record_count := 0;
                            return next batch;
                        end if;
                        return;
                    elsif may_merge and batch.record_count = 1 and batch.byte_count < 2048 then
                        single := batch.byte_count;
                        exit;
                    end if;
                    return next batch;
                    here := reached;
                    bytes := bytes - batch.byte_count;
                end if;
            end loop;
        exception when undefined_table then
            -- Dropped after the catalogue was read: what it says now is an error, or a shorter answer.
            if here > start then
                return;
            end if;
            perform trunkline.log_place(topic_id, partition, start);
            raise exception 'records of this transaction''s snapshot have been dropped by retention'
                using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';
        end;
        before := here;
        while single is not null loop
            most := least(stop - here, bytes / greatest(single * 4, 2048), 1024);
            batch := trunkline.segment_merge(place.segment_id, partition, here, most, greatest(single * 4, 2048));
            exit when batch.record_count is null;
            return next batch;
            here := here + batch.record_count;
            bytes := bytes - batch.byte_count;
            exit when batch.record_count < most;
        end loop;
        if here > start and (here >= stop or bytes <= 0) then
            return;
        elsif single is not null then
            -- Not tried again where nothing came of it: between other batches each attempt would cost a statement.
            may_merge := here > before;
            continue;
        elsif coalesce(reached, place.first_offset) < here then
            perform trunkline.log_raise_outside(topic_id, partition, start);
        elsif not ended then
            -- A partition that has moved on leaves a closing row, in the transaction that says so.
            if place.next_first is not null then
                perform trunkline.log_raise_gap(place.segment_id, partition, here);
            end if;
            return;
        end if;
        following := trunkline.log_place(topic_id, partition, here);
        if following.segment_id = place.segment_id or following.first_offset <> here then
            perform trunkline.log_raise_gap(place.segment_id, partition, here);
        end if;
        place := following;
    end loop;
end $$;
