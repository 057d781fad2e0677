-- Publishes a batch of a sink: the records that its tasks have staged, once, whoever asks again.
-- A batch that is in the log already is skipped, and what was staged for it this time is left to sink_discard; one that
-- was begun and not finished goes on with what was staged then. A new one must be staged completely: record_counts
-- says how many records each stage has. What one transaction should not hold locks for is left to sink_step.
-- run_id tells one start of the query from the next. Only the first batch of a run may be in the log already: a later one
-- was written by somebody else with the same checkpoint, as was one that lies far behind. A run that comes with a batch
-- twice has two writes of one name, and is refused, unless it is the same call again: the same stages. With is_exact a
-- batch that had another number of records when it was written is another batch, of a copied checkpoint.
-- Returns what the batch is now ('done', or 'begun' where sink_step has to go on), whether it was in the log already,
-- and the segments that were seen to be full: for segment_roll_if_full.
-- locks: the sink, then the partitions, in ascending order
-- errors: TL001 (two writes of one name, too), TL018 (rewound, copied or shared checkpoint), TL019 (a stage is not complete), those of sink_step
-- grants: producer
create function trunkline.sink_commit(
    query_id text, sink_id text, is_named boolean, batch_id bigint, run_id text,
    stage_nos integer[], record_counts bigint[], is_exact boolean default true,
    out sink_no integer, out state text, out was_known boolean, out full_segments integer[])
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    record_count constant bigint := (select coalesce(sum(n), 0) from unnest(record_counts) n);
    newest record;
    known  record;
begin
    if (batch_id >= 0 and length(run_id) between 1 and 200
        and coalesce(cardinality(stage_nos), 0) = coalesce(cardinality(record_counts), 0)) is not true then
        raise exception 'a batch has a number of at least 0, a run, and as many counts as stages' using errcode = 'TL001';
    end if;
    perform trunkline.log_guard_commit();
    insert into trunkline.sink as s (query_id, sink_id, is_named, created_at)
    values (sink_commit.query_id, sink_commit.sink_id, sink_commit.is_named, trunkline.clock_now())
    on conflict on constraint sink_query_id_sink_id_key do nothing;
    select s.sink_no into strict sink_no from trunkline.sink s
    where s.query_id = sink_commit.query_id and s.sink_id = sink_commit.sink_id;
    perform trunkline.lock_sink(sink_no);
    -- The newest batch need not be the last row: a later run may have met an older one again.
    select max(l.seq) as seq, max(l.batch_id) as batch_id into newest from trunkline.sink_ledger l
    where l.sink_no = sink_commit.sink_no;
    select bool_or(l.kind = 'd') as is_done, bool_or(l.run_id = sink_commit.run_id) as is_own,
        bool_or(l.run_id = sink_commit.run_id and l.kind in ('b', 's')
            and l.stage_nos is not distinct from sink_commit.stage_nos) as is_same,
        max(l.record_count) filter (where l.kind = 'b') as record_count into known
    from trunkline.sink_ledger l
    where l.sink_no = sink_commit.sink_no and l.batch_id = sink_commit.batch_id;
    was_known := coalesce(known.is_done, false);
    if known.is_done is null then
        perform trunkline.sink_check_new(sink_no, newest.batch_id, batch_id);
        perform trunkline.sink_check_staged(stage_nos, record_counts);
        insert into trunkline.sink_ledger (sink_no, seq, batch_id, kind, run_id, stage_nos, record_count, at)
        values (sink_commit.sink_no, coalesce(newest.seq, 0) + 1, sink_commit.batch_id, 'b', sink_commit.run_id,
            sink_commit.stage_nos, record_count, trunkline.clock_now());
    elsif not known.is_own then
        if batch_id < newest.batch_id - 1 or exists (select from trunkline.sink_ledger l
            where l.sink_no = sink_commit.sink_no and l.run_id = sink_commit.run_id) then
            perform trunkline.sink_raise_rewound(batch_id, newest.batch_id);
        elsif is_exact and known.record_count <> record_count then
            perform trunkline.sink_raise_changed(batch_id, known.record_count, record_count);
        end if;
        insert into trunkline.sink_ledger (sink_no, seq, batch_id, kind, run_id, stage_nos, at)
        values (sink_commit.sink_no, newest.seq + 1, sink_commit.batch_id, 's', sink_commit.run_id, sink_commit.stage_nos,
            trunkline.clock_now());
    elsif known.is_done and not known.is_same then
        raise exception 'this run has written batch % before, under the same name', batch_id using errcode = 'TL001',
            hint = 'nothing was published; give every write of a batch its own sinkId, and let the query fail and start '
                'again instead of repeating a write';
    end if;
    if was_known then
        state := 'done';
    else
        select s.state, s.full_segments into state, full_segments from trunkline.sink_step(sink_no, batch_id) s;
    end if;
end $$;
