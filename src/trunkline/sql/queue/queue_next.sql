-- What a reader of a queue calls: settles what it has done with earlier claims, then claims more. Either may be nothing.
--
-- A settlement is about one claim, by its part, number and token. seqs counts the settlements of a claim from 1, so
-- that one whose answer was lost can be sent again. kinds: a acknowledge, n give back for another attempt after the
-- delay, r give back without counting this attempt, d and j done with, because it is among the dead letters (appended
-- by the caller, in this transaction) or rejected, e hold it until delay seconds from now. offsets is an int8multirange
-- as text, null for all that the claim still holds. In an ordered queue n gives back all that it still holds,
-- and what is behind those offsets counts as not tried; r too, where others of the claim behind them are done.
-- A claim that is lost does not raise: the last row names it.
--
-- Claims are of at most max_records records and about bytes_max bytes, from start_part on. A row is a piece of a claim,
-- with its records where they are small; otherwise read them by log_read. Only offsets of the claim count, where a row
-- names them. is_exhausted: as often tried as the queue allows. The last row has no claim_no: lost has the places of
-- settlements whose claim is lost, due_s says when to look again, is_full that queue_roll is due.
--
-- Promise: no record is held by two; a settlement that is not lost is durable once its transaction has committed; a claim
-- that this call alone makes is not flushed, so that it may be forgotten in a crash, which means that it is delivered again.
-- Where there is nothing to do, it writes nothing. Call it in a transaction of its own.
-- locks: parts that are settled other than by an acknowledgement, in ascending order; claims; parts that are claimed from
-- errors: TL001 TL002, 55P03
-- grants: consumer
create function trunkline.queue_next(
    queue_id integer, part_ids integer[], claim_nos bigint[], tokens bigint[], seqs integer[], kinds text[],
    offsets text[], delays double precision[], max_records integer, bytes_max bigint, start_part integer, holder text)
returns setof trunkline.claim_row
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    call       constant text := 'select s.is_done, s.is_full, s.next_no, s.record_count, row($1, $8, s.next_no, s.next_token, 1,
            s.held_ms / 1000.0, false, null, s.first_offset, s.record_count, s.append_time, s.keys, s.payloads, s.header_counts,
            s.header_names, s.header_values, null, null, null, null, null, null)::trunkline.claim_row as piece
        from trunkline.claim_%s_step($1, $2, $3, $4, $5, null, $6, $7, false) s';
    queue      record;
    place      record;
    part       record;
    step       record;
    number     integer;
    piece      trunkline.claim_row;
    lost       integer[];
    due        timestamptz := 'infinity';
    is_full    boolean := false;
    is_busy    boolean := false;
    is_retry   boolean := false;
    has_part   boolean := coalesce(kinds && array['n', 'r', 'e'], false);
    taken      integer := 0;
begin
    select q.topic_id, q.ack_deadline_s, q.max_attempts, q.is_ordered, q.paused_at is not null as is_paused, q.pause_above
    into queue from trunkline.queue q where q.queue_id = queue_next.queue_id;
    if not found then
        raise exception 'queue % was deleted', queue_id using errcode = 'TL002',
            hint = 'open it again: queue_enter creates it';
    elsif current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'queues are read in READ COMMITTED, not in %', upper(current_setting('transaction_isolation'))
            using errcode = 'TL001', hint = 'an older snapshot does not show what others have claimed';
    elsif (max_records between 0 and 10000 and (max_records = 0 or bytes_max >= 1)) is not true then
        raise exception 'max_records must be from 0 to 10000, and bytes_max at least 1' using errcode = 'TL001';
    end if;
    perform trunkline.log_guard_commit();
    if cardinality(claim_nos) > 0 then
        lost := trunkline.queue_settle(queue_id, queue.is_ordered, part_ids, claim_nos, tokens, seqs, kinds, offsets, delays);
        if queue.pause_above is not null and kinds && array['n', 'd', 'j'] then
            perform trunkline.queue_break(queue_id);
        end if;
    elsif cardinality(claim_nos) = 0 and max_records > 0 and statement_timestamp() = now() then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if max_records > 0 and not queue.is_paused then
        for attempt in 1 .. 2 loop
            for place in
                select distinct p.table_no from trunkline.queue_part p where p.queue_id = queue_next.queue_id order by 1
            loop
                for part in execute format('select * from trunkline.claim_%s_ready($1)', place.table_no) using start_part loop
                    if not part.is_ready then
                        due := least(due, part.next_due);
                        continue;
                    end if;
                    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 6, part.part_id) then
                        -- Others claim there. It is waited for where nothing else is to be had; not by one who
                        -- holds another part, or two would wait for each other: that one looks again soon.
                        is_busy := true;
                        continue when attempt = 1;
                        if has_part then
                            due := least(due, trunkline.clock_now());
                            continue;
                        end if;
                        perform trunkline.lock_part(part.part_id);
                    end if;
                    has_part := true;
                    -- In a later statement than the lock: it may have moved to other tables.
                    select p.table_no into number from trunkline.queue_part p where p.part_id = part.part_id;
                    execute format(call, number) into step using part.part_id, null::bigint, null::bigint, null::integer,
                        null::int8multirange, max_records - taken, holder, part.partition;
                    if step.next_no is not null then
                        return next step.piece;
                        taken := taken + step.record_count;
                        due := least(due, part.next_due, trunkline.clock_now() + queue.ack_deadline_s * interval '1 second');
                        exit when taken >= max_records or attempt = 2;
                        continue;
                    end if;
                    for piece in execute format(
                        'select * from trunkline.claim_%s_take($1, $2, $3, $4, $5, $6, $7, $8, $9)', number)
                        using part.part_id, queue.topic_id, part.partition, max_records - taken, bytes_max, holder,
                            queue.ack_deadline_s, queue.max_attempts, queue.is_ordered
                    loop
                        if piece.claim_no is null then
                            taken := taken + piece.record_count;
                            due := least(due, piece.append_time);
                        else
                            is_retry := is_retry or piece.attempt > 1;
                            return next piece;
                        end if;
                    end loop;
                    exit when taken >= max_records or (attempt = 2 and taken > 0);
                end loop;
            end loop;
            exit when taken > 0 or not is_busy;
        end loop;
        if is_retry and queue.pause_above is not null then
            perform trunkline.queue_break(queue_id);
        end if;
        if random() < 0.01 then
            is_full := trunkline.queue_is_full(queue_id);
        end if;
    end if;
    piece := null;
    piece.lost := lost;
    piece.due_s := case when due < 'infinity' then greatest(extract(epoch from due - trunkline.clock_now()), 0) end;
    piece.is_full := is_full;
    return next piece;
end $$;
