-- Reads whole batches of one partition, from the one that holds `start` on, in order and without a gap, until
-- max_records or bytes_max is reached. A batch that would pass bytes_max is left for the next call; the first one
-- comes always.
-- With merge_small, runs of at least 64 batches of one record come as few rows: first_offset and record_count are of a
-- piece of the run, append_times has its records' times, and what belongs to one batch alone is null.
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
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
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
    is_run    boolean;            -- whether a run of batches of one record seems to begin
    limited   bigint;             -- the size of the largest that it may have
    run_stop  bigint;             -- where it ends at the latest
    goal      bigint;             -- where its next rows end
    has_more  boolean := false;   -- whether keys and headers are looked for
    blocked   bigint;             -- where it meets something else
    is_single boolean;            -- and whether that is a batch of one record, with more than a payload
    before    bigint;
    is_newest boolean;            -- whether the partition goes on in no later segment
    is_kept   boolean;            -- whether plans for it may stay in the server's process
    batches   refcursor;
    pieces    refcursor;
    answer    refcursor;
    merge_at  bigint := case when merge_small then start end;    -- from where on a run is looked for
begin
    if max_records is null or max_records < 1 or bytes_max is null or bytes_max < 1 then
        raise exception 'max_records and bytes_max must be at least 1' using errcode = 'TL001';
    end if;
    stop := least(start, 9223372036854775807 - max_records) + max_records;
    place := trunkline.log_place(topic_id, partition, start);
    loop
        is_newest := place.next_first is null;
        is_kept := is_newest or max_records <= 1000;
        reached := null;
        ended := false;
        is_run := false;
        begin
            batches := trunkline.segment_open(place.segment_id, is_kept, 'batches', partition, here, stop, null);
            loop
                fetch batches into batch;
                exit when not found;
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
                        close batches;
                        return;
                    elsif here >= merge_at and batch.record_count = 1 and batch.byte_count < 2048 then
                        merge_at := null;
                        limited := greatest(batch.byte_count * 4, 2048);
                        if least(stop - here, bytes / limited) >= 64 then
                            answer := trunkline.segment_open(
                                place.segment_id, is_kept, 'is_run', partition, here + 63, null, null);
                            fetch answer into is_run;
                            close answer;
                            exit when is_run;
                        end if;
                    end if;
                    return next batch;
                    here := reached;
                    bytes := bytes - batch.byte_count;
                end if;
            end loop;
            close batches;
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
        run_stop := stop;
        blocked := null;
        while is_run loop
            -- Bounded, because pieces behind the end of the log cost time too, however much is asked for.
            goal := least(run_stop, here + bytes / limited, here + 16384);
            exit when goal < here + 64;
            -- A row at a time, as each takes more memory than the processor's cache should lose.
            pieces := trunkline.segment_open(place.segment_id, is_kept,
                case when has_more then 'full_runs' else 'runs' end, partition, here, goal, limited);
            loop
                fetch pieces into batch;
                exit when not found or batch.first_offset <> here or (here = before and batch.record_count < 64);
                return next batch;
                here := here + batch.record_count;
                bytes := bytes - batch.byte_count;
            end loop;
            close pieces;
            continue when here = goal;
            -- The log ends, or what is looked for stands next: keys or headers, which the following are likely to have
            -- too, or another kind of batch.
            answer := trunkline.segment_open(place.segment_id, is_kept,
                case when has_more then 'end_of_full_run' else 'end_of_run' end,
                partition, here, least(goal, here + 256), limited);
            fetch answer into blocked, is_single;
            close answer;
            exit when blocked is null;
            if is_single then
                has_more := true;
            else
                run_stop := blocked;
            end if;
        end loop;
        if here > start and (here >= stop or bytes <= 0) then
            return;
        elsif is_run then
            -- Not tried again where nothing came of it: between other batches each attempt would cost a statement.
            merge_at := case when here > before then coalesce(blocked, here) end;
            continue;
        elsif coalesce(reached, place.first_offset) < here then
            perform trunkline.log_raise_outside(topic_id, partition, start);
        elsif not ended then
            -- A partition that has moved on leaves a closing row, in the transaction that says so.
            if not is_newest then
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
