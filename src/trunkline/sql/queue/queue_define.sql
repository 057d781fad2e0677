-- Makes, or makes again, the functions on one pair of tables. They are functions of their own so that their plans are
-- cached: claim_<n>_ready, _take and _settle are called by queue_next, which holds the locks that they need;
-- claim_<n>_step is the hot path, for clients. Its text has the topic's open segment, and what is set of the queue: whoever
-- changes these makes it again, under the queue's lock or the topic's.
-- grants: none
create function trunkline.queue_define(table_no integer) returns void
language plpgsql volatile
as $define$
declare
    queue   record;
    grantee record;
begin
    select q.queue_id, q.ack_deadline_s, t.open_segment_id,
        q.paused_at is null and not q.is_ordered and q.max_attempts is distinct from 1 as is_plain,
        array(select p.part_id from trunkline.queue_part p where p.queue_id = q.queue_id order by p.part_id) as part_ids,
        array(select n.partition from trunkline.queue_part p join trunkline.topic_partition n using (partition_id)
            where p.queue_id = q.queue_id order by p.part_id) as partitions
    into queue
    from trunkline.queue_table x join trunkline.queue q using (queue_id) join trunkline.topic t using (topic_id)
    where x.table_no = queue_define.table_no;
    if not found then
        return;    -- The queue was deleted, and its tables are still there.
    end if;
    -- Claims records of one part, whose lock the caller holds: first what is due (expired claims, tickets), then what
    -- nobody has claimed yet. The last row, without a claim_no, has how many records it were (record_count), and when
    -- somebody must look again (append_time).
    execute replace(replace($function$
create or replace function trunkline.<claim>_take(
    part_id integer, topic_id integer, partition integer, max_records integer, bytes_max bigint, holder text,
    ack_deadline_s double precision, max_attempts integer, is_ordered boolean)
returns setof trunkline.claim_row
language plpgsql volatile
as $body$
declare
    now      constant timestamptz := trunkline.clock_now();
    deadline constant timestamptz := now + ack_deadline_s * interval '1 second';
    state    trunkline.<claim>%rowtype;     -- of the part: its newest row
    due      record;
    seen     record;
    dues     timestamptz[];         -- of records that are to be delivered later
    tickets  int8multirange[];
    batch    trunkline.batch_row;
    piece    trunkline.claim_row;
    set_     int8multirange;
    rest     int8multirange;
    first    bigint;
    stop     bigint;
    here     bigint;
    a        integer;
    z        integer;
    taken    integer := 0;
    most     integer;
    is_small boolean;
    bytes    bigint := 0;
    looked   integer;
    is_moved boolean := false;      -- whether the state is another than what is written
    is_open  boolean;
begin
    select * into state from trunkline.<claim> c where c.part_id = <claim>_take.part_id order by c.claim_no desc limit 1;
    piece.part_id := part_id;
    piece.partition := partition;
    piece.deadline_s := ack_deadline_s;
    while state.next_due <= now and taken < max_records loop
        looked := 0;
        for due in
            select c.deadline as row_deadline, c.claim_no as row_no, x.claim_no, x.kind, x.attempt,
                coalesce(l.remains, x.offsets) as offsets, coalesce(l.deadline, x.deadline) as deadline,
                coalesce(l.seq, 0) as seq
            from (
                select d.deadline, d.claim_no, coalesce(d.about, d.claim_no) as about from trunkline.<claim> d
                where d.part_id = <claim>_take.part_id and d.deadline is not null
                    and (d.deadline, d.claim_no) > (state.swept, state.swept_no) and d.deadline <= now
                order by d.deadline, d.claim_no limit 200) c
            join lateral (
                select x.claim_no, x.kind, x.attempt, x.offsets, x.deadline from trunkline.<claim> x
                where x.part_id = <claim>_take.part_id and x.claim_no = c.about offset 0) x on true
            left join lateral (
                select l.remains, l.deadline, l.seq from trunkline.<closure> l
                where l.part_id = <claim>_take.part_id and l.claim_no = c.about order by l.seq desc limit 1) l on true
            order by c.deadline, c.claim_no
        loop
            exit when taken >= max_records;
            looked := looked + 1;
            is_moved := true;
            state.swept := due.row_deadline;
            state.swept_no := due.row_no;
            -- Done, or extended: then an alarm stands where it ends.
            continue when isempty(due.offsets) or due.deadline > now;
            if due.kind = 'c' then
                if not trunkline.lock_claim_try(part_id, due.claim_no) then
                    -- It is being acknowledged, perhaps in somebody's long transaction.
                    state.claim_no := state.claim_no + 1;
                    state.kind := 'a';
                    state.about := due.claim_no;
                    state.deadline := greatest(now + interval '1 second', state.swept + interval '1 microsecond');
                    state.next_due := least(state.next_due, state.deadline);
                    state.offsets := null;
                    state.attempt := null;
                    state.token := null;
                    state.holder := null;
                    state.at := now;
                    insert into trunkline.<claim> select (state).*;
                    continue;
                end if;
                -- In a later statement than the lock.
                select l.remains, l.deadline, l.seq into seen from trunkline.<closure> l
                where l.part_id = <claim>_take.part_id and l.claim_no = due.claim_no order by l.seq desc limit 1;
                if found then
                    continue when isempty(seen.remains) or seen.deadline > now;
                    due.offsets := seen.remains;
                    due.seq := seen.seq;
                end if;
            end if;
            set_ := due.offsets;
            first := trunkline.queue_log_start(topic_id, partition);
            if lower(set_) < first then
                rest := set_ * int8multirange(int8range(null, first));
                state.expired := state.expired + trunkline.offsets_count(rest);
                set_ := set_ - rest;
            end if;
            insert into trunkline.<closure> (claim_no, deadline, at, part_id, seq, records, kind, remains)
            values (due.claim_no, now, now, <claim>_take.part_id, due.seq + 1,
                case when due.kind = 'c' then trunkline.offsets_count(due.offsets) else 0 end,
                case when isempty(set_) then 'x' else 't' end, '{}');
            continue when isempty(set_);
            state.at := now;
            if not is_ordered then
                -- The last attempt is made alone: one record that kills its readers takes no others along.
                rest := set_ - trunkline.offsets_head(set_,
                    case when due.attempt + 1 >= max_attempts then 1 else max_records - taken end);
                if not isempty(rest) then
                    set_ := set_ - rest;
                    state.claim_no := state.claim_no + 1;
                    state.kind := 't';
                    state.about := null;
                    state.deadline := greatest(now, state.swept + interval '1 microsecond');
                    state.next_due := least(state.next_due, state.deadline);
                    state.offsets := rest;
                    state.attempt := due.attempt;
                    state.token := null;
                    state.holder := null;
                    insert into trunkline.<claim> select (state).*;
                end if;
            end if;
            piece.is_exhausted := coalesce(due.attempt >= max_attempts, false);
            state.claim_no := state.claim_no + 1;
            state.kind := 'c';
            state.about := null;
            state.deadline := greatest(deadline, state.swept + interval '1 microsecond');
            state.next_due := least(state.next_due, state.deadline);
            state.offsets := set_;
            state.attempt := due.attempt + case when piece.is_exhausted then 0 else 1 end;
            state.token := trunkline.random_bigint();
            state.holder := <claim>_take.holder;
            insert into trunkline.<claim> select (state).*;
            is_moved := false;
            -- Nor does it take others along that come in the same answer, if it is their last attempt as well.
            taken := case when state.attempt >= max_attempts and not piece.is_exhausted and not is_ordered then max_records
                else taken + trunkline.offsets_count(set_) end;
            piece.claim_no := state.claim_no;
            piece.token := state.token;
            piece.attempt := state.attempt;
            piece.offsets := set_;
            for first, stop in select lower(r), upper(r) from unnest(set_) r loop
                piece.first_offset := first;
                piece.record_count := stop - first;
                return next piece;
            end loop;
        end loop;
        -- What was put down just now is among what comes next.
        select coalesce(min(u.deadline), 'infinity') into state.next_due from (
            select d.deadline from trunkline.<claim> d
            where d.part_id = <claim>_take.part_id and d.deadline is not null
                and (d.deadline, d.claim_no) > (state.swept, state.swept_no)
            order by d.deadline, d.claim_no limit 1) u;
        is_moved := true;
    end loop;

    most := least(max_records - taken, case when max_attempts = 1 then 1 end);
    if most > 0 and is_ordered then
        -- One range at a time: the newest claim or ticket is the only one that may be open.
        select not isempty(coalesce(l.remains, c.offsets)) into is_open
        from (
            select x.claim_no, x.offsets from trunkline.<claim> x
            where x.part_id = <claim>_take.part_id and x.kind in ('c', 't') order by x.claim_no desc limit 1) c
        left join lateral (
            select l.remains from trunkline.<closure> l
            where l.part_id = <claim>_take.part_id and l.claim_no = c.claim_no order by l.seq desc limit 1) l on true;
        if is_open then
            most := 0;
        end if;
    end if;
    if most > 0 then
        piece.claim_no := state.claim_no + 1;
        piece.token := trunkline.random_bigint();
        piece.attempt := 1;
        piece.is_exhausted := false;
        piece.offsets := null;
        set_ := null;
        first := state.frontier + 1;
        stop := first + most;
        here := first;
        begin
            for batch in select * from trunkline.log_read(
                topic_id, partition, first, most, <claim>_take.bytes_max, true, false) loop
                a := greatest(here - batch.first_offset, 0) + 1;
                z := least(batch.record_count, stop - batch.first_offset);
                -- A claim ends with a batch, where it has one.
                exit when here > first and (z < batch.record_count
                    or 'trunkline-deliver-after' = any (batch.header_names));
                if 'trunkline-deliver-after' = any (batch.header_names) then
                    select s.ready, s.last_place, s.dues, s.tickets into set_, z, dues, tickets
                    from trunkline.queue_set_aside(batch.first_offset, batch.append_time, batch.append_times, a, z,
                        batch.header_counts, batch.header_names, batch.header_values, now, is_ordered) s;
                end if;
                here := batch.first_offset + z;
                if set_ is null or not isempty(set_) then
                    -- Small ones come along. Large ones are fetched when the lock is free again, and so is a part of
                    -- a batch: whoever takes one record after the other fetches the batch once.
                    bytes := bytes + batch.byte_count;
                    is_small := bytes <= 65536 and z - a + 1 = batch.record_count;
                    piece.offsets := set_;
                    piece.first_offset := batch.first_offset + a - 1;
                    piece.record_count := z - a + 1;
                    piece.append_time := batch.append_time;
                    piece.append_times := case when is_small then batch.append_times end;
                    piece.joined := case when is_small then batch.joined end;
                    piece.lengths := case when is_small then batch.lengths end;
                    piece.keys := case when is_small then batch.keys end;
                    piece.payloads := case when is_small then batch.payloads end;
                    piece.header_counts := case when is_small then batch.header_counts end;
                    piece.header_names := case when is_small then batch.header_names end;
                    piece.header_values := case when is_small then batch.header_values end;
                    return next piece;
                end if;
                exit when set_ is not null;
            end loop;
        exception when sqlstate 'TL005' then
            -- Retention has been here.
            first := trunkline.queue_log_start(topic_id, partition);
            state.expired := state.expired + first - here;
            state.frontier := first - 1;
            state.next_due := now;
            here := first;
            is_moved := true;
        end;
        if here > first then
            state.frontier := here - 1;
            state.at := now;
            state.about := null;
            set_ := coalesce(set_, int8multirange(int8range(first, here)));
            if not isempty(set_) then
                state.claim_no := piece.claim_no;
                state.kind := 'c';
                state.deadline := greatest(deadline, state.swept + interval '1 microsecond');
                state.next_due := least(state.next_due, state.deadline);
                state.offsets := set_;
                state.attempt := 1;
                state.token := piece.token;
                state.holder := <claim>_take.holder;
                insert into trunkline.<claim> select (state).*;
                is_moved := false;
                taken := taken + case when piece.offsets is null then here - first else trunkline.offsets_count(set_) end;
            end if;
            if not is_ordered then
                for due in select * from unnest(dues, tickets) u(deadline, offsets) loop
                    state.claim_no := state.claim_no + 1;
                    state.kind := 't';
                    state.deadline := greatest(due.deadline, state.swept + interval '1 microsecond');
                    state.next_due := least(state.next_due, state.deadline);
                    state.offsets := due.offsets;
                    state.attempt := 0;
                    state.token := null;
                    state.holder := null;
                    insert into trunkline.<claim> select (state).*;
                    is_moved := false;
                end loop;
            end if;
        end if;
    end if;
    if is_moved then
        state.claim_no := state.claim_no + 1;
        state.kind := 'm';
        state.about := null;
        state.deadline := null;
        state.offsets := null;
        state.attempt := null;
        state.token := null;
        state.holder := null;
        state.at := now;
        insert into trunkline.<claim> select (state).*;
    end if;
    piece := null;
    piece.record_count := taken;
    -- Where all of a batch was set aside, there may be more behind it.
    piece.append_time := least(state.next_due, case when is_ordered then dues[1] end,
        case when taken = 0 and here > first then now end);
    return next piece;
end $body$
$function$, '<claim>', 'claim_' || table_no), '<closure>', 'closure_' || table_no);

    -- Settles offsets of one claim, whose lock the caller holds, and for all but an acknowledgement the part's too.
    -- Whether it was done, now or by the same call before; otherwise the claim is lost, or does not hold them any more.
    execute replace(replace($function$
create or replace function trunkline.<claim>_settle(
    part_id integer, claim_no bigint, token bigint, seq integer, kind "char", offsets int8multirange,
    delay_s double precision, is_ordered boolean)
returns boolean
language plpgsql volatile
as $body$
declare
    now     constant timestamptz := trunkline.clock_now();
    due     constant timestamptz := now + delay_s * interval '1 second';
    held    record;
    state   trunkline.<claim>%rowtype;
    chosen  int8multirange;
    handled int8multirange;     -- of an ordered queue: what comes again before anything behind it
    behind  int8multirange := '{}';
begin
    select c.attempt, c.offsets, coalesce(l.deadline, c.deadline) as deadline, coalesce(l.seq, 0) as seq,
        coalesce(l.remains, c.offsets) as remains
    into held
    from trunkline.<claim> c left join lateral (
        select l.seq, l.remains, l.deadline from trunkline.<closure> l
        where l.part_id = c.part_id and l.claim_no = c.claim_no order by l.seq desc limit 1) l on true
    where c.part_id = <claim>_settle.part_id and c.claim_no = <claim>_settle.claim_no
        and c.token = <claim>_settle.token;
    if not found then
        return false;
    elsif held.seq >= seq then
        -- The same again, after an answer that was lost; or something else under its number: then it was not done.
        return exists (select from trunkline.<closure> l
            where l.part_id = <claim>_settle.part_id and l.claim_no = <claim>_settle.claim_no
                and l.seq = <claim>_settle.seq and l.kind = <claim>_settle.kind
                and (l.kind = 'e' or not coalesce(<claim>_settle.offsets, held.offsets) && l.remains));
    elsif held.seq <> seq - 1 or held.deadline <= now or isempty(held.remains) then
        return false;
    end if;
    chosen := coalesce(offsets, held.remains);
    if isempty(chosen) or not chosen <@ held.remains then
        return false;
    end if;
    handled := chosen;
    if kind in ('n', 'r', 'e') then
        -- The part's newest row, whose lock is held.
        select * into state from trunkline.<claim> s where s.part_id = <claim>_settle.part_id order by s.claim_no desc limit 1;
    end if;
    if is_ordered and kind in ('n', 'r') then
        -- Nothing of the range may pass another. What is behind was not tried yet, and is not claimed any more; where
        -- something behind it is done, it all comes again together.
        behind := case when kind = 'r' then chosen
            else held.remains * int8multirange(int8range(upper(chosen), null)) end;
        handled := held.remains - behind;
        if isempty(handled) or isempty(behind) or lower(behind) < upper(handled)
            or behind <> int8multirange(int8range(lower(behind), state.frontier + 1)) then
            handled := held.remains;
            behind := '{}';
        end if;
        chosen := case when kind = 'r' and not isempty(behind) then behind else held.remains end;
    end if;
    insert into trunkline.<closure> (claim_no, deadline, at, part_id, seq, records, kind, remains)
    values (<claim>_settle.claim_no, case when kind = 'e' then due else held.deadline end, now,
        <claim>_settle.part_id, <claim>_settle.seq,
        case when kind = 'e' then 0 else trunkline.offsets_count(chosen) end, <claim>_settle.kind,
        case when kind = 'e' then held.remains else held.remains - chosen end);
    if kind in ('n', 'r', 'e') then
        state.claim_no := state.claim_no + 1;
        state.frontier := coalesce(lower(behind) - 1, state.frontier);
        state.token := null;
        state.about := null;
        state.at := now;
        state.holder := null;
        if kind = 'r' and not isempty(behind) then
            state.kind := 'm';
            state.deadline := null;
            state.attempt := null;
            state.offsets := null;
        else
            state.kind := case when kind = 'e' then 'a' else 't' end;
            state.about := case when kind = 'e' then <claim>_settle.claim_no end;
            state.deadline := greatest(due, state.swept + interval '1 microsecond');
            state.next_due := least(state.next_due, state.deadline);
            -- What is released counts as not tried; but where it is given back with what was handed out, it was.
            state.attempt := case when kind = 'n' or (kind = 'r' and handled <> coalesce(offsets, handled)) then held.attempt
                when kind = 'r' then greatest(held.attempt - 1, 0) end;
            state.offsets := case when kind <> 'e' then handled end;
        end if;
        insert into trunkline.<claim> select (state).*;
    end if;
    return true;
end $body$
$function$, '<claim>', 'claim_' || table_no), '<closure>', 'closure_' || table_no);

    -- Acknowledges one claim, or part of it, and claims the next records of its part, if nothing is unusual; everything
    -- else is left to queue_next. Both, or either: claim_no may be null, max_records 0. is_done: whether it was
    -- acknowledged; otherwise send it to queue_next, which says what became of it. is_more: whether queue_next should be
    -- asked for records. records: how many are acknowledged, where that is known. is_alone: nothing else is in this
    -- transaction, so that a claim need not be flushed. held_ms: for how long those are held that were claimed. Records
    -- come along where they are all of a batch, and small; otherwise read them by log_read. A flag that is null is false.
    -- Promises are those of queue_next. What changes rarely stands in its text. A part that has moved to other tables leaves rows behind here (see queue_move_part) that make it
    -- unusual; queue_tables says where it is now.
    execute replace(replace(replace(format($function$
create or replace function trunkline.<claim>_step(
    part_id integer, claim_no bigint, token bigint, seq integer, offsets int8multirange, records integer,
    max_records integer, holder text, is_alone boolean,
    out is_done boolean, out is_more boolean, out is_full boolean, out next_no bigint, out next_token bigint,
    out first_offset bigint, out record_count integer, out held_ms integer, out append_time timestamptz, out keys bytea[],
    out payloads bytea[], out header_counts integer[], out header_names text[], out header_values bytea[])
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $body$
declare
    now        timestamptz;
    deadline   timestamptz;      -- of what is claimed
    held_until timestamptz;      -- the deadline of the part's newest row
    done       integer;          -- records that are acknowledged
    frontier   bigint;
    looked     timestamptz;      -- up to where what was due has been looked at
    looked_no  bigint;
    next_due   timestamptz;
    expired    bigint;
    rest       integer;          -- of the batch that comes next
    next_first bigint;           -- where the one after it begins
    is_newest  boolean;          -- whether the part's newest row is the claim that is acknowledged, all of it, in time
    is_usual   boolean;          -- whether records of that batch can be claimed here
    is_plain   boolean;          -- and nothing else is to be looked at
    due        record;
    setting    text;
begin
    -- Few statements, and few expressions: each is set up anew in every call.
    if (current_setting('transaction_isolation') = 'read committed'
        and (claim_no is null or (current_setting('synchronous_commit') <> 'off'
            and pg_try_advisory_xact_lock(trunkline.lock_class() + 7, hashint8(claim_no) # hashint4(part_id))))
        and current_setting('max_prepared_transactions') = '0') is not true then
        if current_setting('transaction_isolation') <> 'read committed'
            or (claim_no is not null and current_setting('synchronous_commit') = 'off')
            or current_setting('max_prepared_transactions') <> '0' then
            is_more := true;
            return;
        end if;
        perform trunkline.lock_wait(trunkline.lock_class() + 7, hashint8(claim_no) # hashint4(part_id));
    end if;
    if max_records > 0 and %1$L and pg_try_advisory_xact_lock(trunkline.lock_class() + 6, part_id) then
        -- In a later statement than the locks. What is claimed is worked out here already, and holds if it is written.
        select s.claim_no + 1, trunkline.random_bigint(), s.frontier + 1,
            least(greatest(b.first_offset + b.record_count - s.frontier - 1, 0), max_records), %6$s, b.append_time,
            case when b.is_whole then b.keys end, case when b.is_whole then b.payloads end,
            case when b.is_whole then b.header_counts end, case when b.is_whole then b.header_names end,
            case when b.is_whole then b.header_values end, random() < 0.002 and trunkline.queue_is_full(%5$s),
            s.now, greatest(s.now + interval %2$L, s.swept + interval '1 microsecond'), s.deadline,
            coalesce(<claim>_step.records, trunkline.offsets_count(s.offsets)),
            s.frontier, s.swept, s.swept_no, s.next_due, s.expired,
            greatest(b.first_offset + b.record_count - s.frontier - 1, 0), b.first_offset + b.record_count,
            s.claim_no = <claim>_step.claim_no and s.token = <claim>_step.token and s.deadline > s.now
                and <claim>_step.seq = 1 and <claim>_step.offsets is null,
            b.is_usual, b.is_usual and b.first_offset + b.record_count - s.frontier > max_records and s.next_due > s.now
        into next_no, next_token, first_offset, record_count, held_ms, append_time, keys, payloads, header_counts,
            header_names, header_values, is_full, now, deadline, held_until, done, frontier, looked, looked_no,
            next_due, expired, rest, next_first, is_newest, is_usual, is_plain
        from (
            select s.claim_no, s.token, s.deadline, s.offsets, s.frontier, s.swept, s.swept_no, s.next_due, s.expired,
                trunkline.clock_now() as now
            from trunkline.<claim> s
            where s.part_id = <claim>_step.part_id order by s.claim_no desc limit 1) s
        cross join lateral (
            select b.first_offset, b.record_count, b.append_time, b.keys, b.payloads, b.header_counts, b.header_names,
                b.header_values,
                b.first_offset = s.frontier + 1 and b.record_count <= max_records and b.byte_count <= 65536 as is_whole,
                b.first_offset + b.record_count > s.frontier + 1
                and b.byte_count / b.record_count * least(b.first_offset + b.record_count - s.frontier - 1, max_records) <= 65536
                and ('trunkline-deliver-after' = any (b.header_names)) is not true as is_usual
            from trunkline.<segment> b
            where b.partition = (%3$L::integer[])[array_position(%4$L::integer[], <claim>_step.part_id)]
                and b.first_offset <= s.frontier + 1 order by b.first_offset desc limit 1) b;
        if is_newest and is_plain then
            -- Nearly always. If anything has become of the claim, its first closure is there.
            insert into trunkline.<closure> (claim_no, deadline, at, part_id, seq, records, kind, remains)
            values (<claim>_step.claim_no, held_until, now, <claim>_step.part_id, 1, done, 'a', '{}')
            on conflict do nothing returning true into is_done;
            if is_done then
                insert into trunkline.<claim> (claim_no, token, deadline, at, frontier, swept, swept_no, next_due, expired,
                    part_id, attempt, kind, offsets, holder)
                values (<claim>_step.next_no, <claim>_step.next_token, deadline, now, frontier + <claim>_step.record_count,
                    looked, looked_no, least(next_due, deadline), expired, <claim>_step.part_id, 1, 'c',
                    int8multirange(int8range(<claim>_step.first_offset, <claim>_step.first_offset + <claim>_step.record_count)),
                    <claim>_step.holder);
                return;
            end if;
        end if;
    end if;

    is_more := true;
    if claim_no is not null then
        -- In a later statement than the lock.
        if seq = 1 and offsets is null then
            insert into trunkline.<closure> (claim_no, deadline, at, part_id, seq, records, kind, remains)
            select c.claim_no, c.deadline, trunkline.clock_now(), c.part_id, 1,
                coalesce(<claim>_step.records, trunkline.offsets_count(c.offsets)), 'a', '{}'
            from trunkline.<claim> c
            where c.part_id = <claim>_step.part_id and c.claim_no = <claim>_step.claim_no and c.token = <claim>_step.token
                -- Written so that the key is its only index: by deadlines it would be looked for among all claims.
                and coalesce(c.deadline, c.at) > trunkline.clock_now()
            on conflict do nothing;
        else
            insert into trunkline.<closure> (claim_no, deadline, at, part_id, seq, records, kind, remains)
            select c.claim_no, coalesce(l.deadline, c.deadline), trunkline.clock_now(), c.part_id, <claim>_step.seq,
                coalesce(<claim>_step.records, trunkline.offsets_count(coalesce(<claim>_step.offsets, l.remains, c.offsets))),
                'a', case when <claim>_step.offsets is null then '{}'
                    else coalesce(l.remains, c.offsets) - <claim>_step.offsets end
            from trunkline.<claim> c left join lateral (
                select l.seq, l.remains, l.deadline from trunkline.<closure> l
                where l.part_id = c.part_id and l.claim_no = c.claim_no order by l.seq desc limit 1) l on true
            where c.part_id = <claim>_step.part_id and c.claim_no = <claim>_step.claim_no and c.token = <claim>_step.token
                and coalesce(l.seq, 0) = <claim>_step.seq - 1 and coalesce(l.deadline, c.deadline) > trunkline.clock_now()
                and not isempty(coalesce(l.remains, c.offsets))
                and (<claim>_step.offsets is null
                    or (<claim>_step.offsets <@ coalesce(l.remains, c.offsets) and not isempty(<claim>_step.offsets)));
        end if;
        is_done := found;
    elsif is_alone then
        -- A claim that is lost in a crash is only delivered again.
        setting := set_config('synchronous_commit', 'off', true);
    end if;

    <<claiming>> begin
        exit claiming when is_usual is not true or is_done = false;
        if rest < max_records then
            -- A short rest, and what comes after it fits as well: there it is worth to look for more.
            perform from trunkline.<segment> x
            where x.partition = (%3$L::integer[])[array_position(%4$L::integer[], <claim>_step.part_id)]
                and x.first_offset = next_first and x.record_count <= max_records - rest;
            exit claiming when found;
        end if;
        if next_due <= now then
            -- Nearly always these are claims that were done in time: then it goes on behind them. What is due later and is
            -- done by now need not be looked at again either.
            select bool_or(d.is_open) filter (where d.is_due) as is_open, max(d.deadline) filter (where d.is_due) as swept,
                max(d.claim_no) filter (where d.is_last) as swept_no,
                coalesce(min(d.deadline) filter (where d.is_open and not d.is_due),
                    case when count(*) = 200 then max(d.deadline) end, 'infinity') as next
            into due
            from (
                select d.deadline, d.claim_no, d.is_due, not exists (
                        select from trunkline.<closure> l
                        where l.part_id = <claim>_step.part_id and l.claim_no = d.about and isempty(l.remains)) as is_open,
                    d.is_due and row_number() over (partition by d.is_due order by d.deadline desc, d.claim_no desc) = 1 as is_last
                from (
                    select d.deadline, d.claim_no, coalesce(d.about, d.claim_no) as about, d.deadline <= now as is_due
                    from trunkline.<claim> d
                    where d.part_id = <claim>_step.part_id and d.deadline is not null
                        and (d.deadline, d.claim_no) > (looked, looked_no)
                    order by d.deadline, d.claim_no limit 200) d) d;
            exit claiming when due.is_open is not false;
            looked := due.swept;
            looked_no := due.swept_no;
            next_due := due.next;
        end if;
        insert into trunkline.<claim> (claim_no, token, deadline, at, frontier, swept, swept_no, next_due, expired, part_id,
            attempt, kind, offsets, holder)
        values (<claim>_step.next_no, <claim>_step.next_token, greatest(deadline, looked + interval '1 microsecond'), now,
            frontier + <claim>_step.record_count, looked, looked_no, least(next_due, deadline), expired,
            <claim>_step.part_id, 1, 'c',
            int8multirange(int8range(<claim>_step.first_offset, <claim>_step.first_offset + <claim>_step.record_count)),
            <claim>_step.holder);
        is_more := false;
        return;
    end;
    next_no := null;
    keys := null;
    payloads := null;
    header_counts := null;
    header_names := null;
    header_values := null;
end $body$
$function$, queue.is_plain, queue.ack_deadline_s || ' seconds', queue.partitions, queue.part_ids, queue.queue_id,
        floor(queue.ack_deadline_s * 1000)::integer), '<claim>', 'claim_' || table_no), '<closure>', 'closure_' || table_no),
        '<segment>', 'segment_' || queue.open_segment_id);

    -- The parts in these tables, from start_part on, but first those that nobody has claimed from for a while: whether
    -- there seems to be something to claim, and when somebody must look again. Without locks: a hint. Where the open segment has nothing of a partition yet, it may be.
    execute replace(replace(format($function$
create or replace function trunkline.<claim>_ready(start_part integer)
returns table (part_id integer, partition integer, is_ready boolean, next_due timestamptz)
language plpgsql volatile
as $body$
declare
    now constant timestamptz := trunkline.clock_now();
begin
    return query
        select u.part_id, u.partition,
            coalesce(s.next_due <= now or b.next > s.frontier + 1 or b.is_closed, true), s.next_due
        from unnest(%1$L::integer[], %2$L::integer[]) u(part_id, partition)
        cross join lateral (
            select s.frontier, s.next_due, s.at from trunkline.<claim> s
            where s.part_id = u.part_id order by s.claim_no desc limit 1) s
        left join lateral (
            select b.first_offset + b.record_count as next, b.record_count = 0 as is_closed from trunkline.<segment> b
            where b.partition = u.partition order by b.first_offset desc limit 1) b on true
        -- A part that has moved to other tables, or has not come here yet, is none of these.
        where exists (select from trunkline.queue_part p where p.part_id = u.part_id and p.table_no = %3$s)
        -- A reader that goes on with its own part leaves others alone that have readers, and finds those that have none.
        order by case when s.at < now - interval '200 milliseconds' then s.at end, u.part_id < start_part, u.part_id;
end $body$
$function$, queue.part_ids, queue.partitions, table_no), '<claim>', 'claim_' || table_no),
        '<segment>', 'segment_' || queue.open_segment_id);
    execute format('revoke all on function trunkline.%I, trunkline.%I, trunkline.%I, trunkline.%I from public',
        'claim_' || table_no || '_take', 'claim_' || table_no || '_settle', 'claim_' || table_no || '_step',
        'claim_' || table_no || '_ready');
    for grantee in select g.role_name from trunkline.grantee g where g.kind in ('consumer', 'admin') loop
        execute format('grant execute on function trunkline.%I to %I', 'claim_' || table_no || '_step', grantee.role_name);
    end loop;
end $define$;
