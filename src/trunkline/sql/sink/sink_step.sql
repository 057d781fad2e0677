-- Publishes the next rows of a batch that sink_commit has begun: at most rows_max of them, so that other publishers do
-- not wait long for their partitions. Records of one stage keep their order within a partition.
-- Returns what the batch is then, 'begun' or 'done', and the segments that were seen to be full.
-- locks: the sink, the partitions in ascending order, then the segments of a batch that needs more than one step
-- errors: TL001, TL002 a topic that was deleted, TL019, 55P03
-- grants: producer
create function trunkline.sink_step(
    sink_no integer, batch_id bigint, rows_max integer default 64, out state text, out full_segments integer[])
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    begun      record;
    staged     trunkline.staged_batch[];
    part       record;
    segment_id integer;
begin
    if (rows_max >= 1) is not true then
        raise exception 'rows_max must be at least 1' using errcode = 'TL001';
    end if;
    perform trunkline.log_guard_commit();
    perform trunkline.lock_sink(sink_no);
    select l.stage_nos, l.run_id, (select max(n.seq) from trunkline.sink_ledger n where n.sink_no = l.sink_no) as last_seq,
        exists (select from trunkline.sink_ledger n
            where n.sink_no = l.sink_no and n.batch_id = l.batch_id and n.kind = 'd') as is_done
    into begun from trunkline.sink_ledger l
    where l.sink_no = sink_step.sink_no and l.batch_id = sink_step.batch_id and l.kind = 'b';
    if not found then
        raise exception 'batch % of sink % was not begun', batch_id, sink_no using errcode = 'TL001',
            hint = 'call sink_commit first';
    end if;
    state := 'done';
    if begun.is_done then
        return;
    end if;
    staged := trunkline.sink_staged(begun.stage_nos, rows_max + 1);
    if cardinality(staged) > rows_max then
        state := 'begun';
        staged := staged[:rows_max];
    end if;
    for part in select distinct s.partition_id from unnest(staged) s order by 1 loop
        perform trunkline.lock_partition(part.partition_id);
        segment_id := trunkline.sink_publish(part.partition_id, staged);
        if trunkline.segment_is_full(segment_id) and not segment_id = any (coalesce(full_segments, '{}')) then
            full_segments := full_segments || segment_id;
        end if;
    end loop;
    if state = 'begun' then
        perform trunkline.sink_keep(begun.stage_nos);
    else
        insert into trunkline.sink_ledger (sink_no, seq, batch_id, kind, run_id, at)
        values (sink_step.sink_no, begun.last_seq + 1, sink_step.batch_id, 'd', begun.run_id, trunkline.clock_now());
    end if;
end $$;
