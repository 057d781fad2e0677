-- Refuses stages that do not hold the records that their tasks have reported: all of them, each once.
-- locks: the rows of the stages, so that nobody takes away or adds what was counted
-- errors: TL019
-- grants: none
create function trunkline.sink_check_staged(stage_nos integer[], record_counts bigint[]) returns void
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    stage record;
    found_count bigint;
    counted bigint;
    ordinals bigint[];
    here bigint[];
begin
    -- Counted in later statements than the lock: they see what others have put or taken until then.
    perform from trunkline.sink_stage s where s.stage_no = any (stage_nos) order by s.stage_no, s.segment_id for update;
    for stage in select u.stage_no, u.record_count,
            array(select s.segment_id from trunkline.sink_stage s where s.stage_no = u.stage_no) as segment_ids
        from unnest(stage_nos, record_counts) u(stage_no, record_count) loop
        found_count := 0;
        ordinals := '{}';
        for i in 1 .. cardinality(stage.segment_ids) loop
            continue when to_regclass('trunkline.segment_' || stage.segment_ids[i]) is null;
            execute format('select coalesce(sum(b.record_count), 0), array_agg(b.first_offset)
                from trunkline.%I b where b.partition = -$1',
                'segment_' || stage.segment_ids[i]) into counted, here using stage.stage_no;
            found_count := found_count + counted;
            ordinals := ordinals || here;
        end loop;
        -- Within one segment the key keeps ordinals apart. Of two segments both may have one, and another be missing.
        if cardinality(stage.segment_ids) > 1
            and cardinality(ordinals) > (select count(distinct o) from unnest(ordinals) o) then
            raise exception 'a batch was staged twice, before and after its topic got a new segment' using errcode = 'TL019',
                hint = 'nothing was published; run the batch again';
        elsif found_count is distinct from stage.record_count then
            raise exception 'of % staged records % are there', coalesce(stage.record_count::text, 'null'), found_count
                using errcode = 'TL019',
                hint = 'nothing was published; the stage was swept, its topic deleted, or the server crashed: run it again';
        end if;
    end loop;
end $$;
