-- Refuses stages that do not hold as many records as their tasks have reported.
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
begin
    for stage in select u.stage_no, u.record_count,
            array(select s.segment_id from trunkline.sink_stage s where s.stage_no = u.stage_no) as segment_ids
        from unnest(stage_nos, record_counts) u(stage_no, record_count) loop
        found_count := 0;
        for i in 1 .. cardinality(stage.segment_ids) loop
            continue when to_regclass('trunkline.segment_' || stage.segment_ids[i]) is null;
            execute format('select coalesce(sum(b.record_count), 0) from trunkline.%I b where b.partition = -$1',
                'segment_' || stage.segment_ids[i]) into counted using stage.stage_no;
            found_count := found_count + counted;
        end loop;
        if found_count is distinct from stage.record_count then
            raise exception 'of % staged records % are there', coalesce(stage.record_count::text, 'null'), found_count
                using errcode = 'TL019',
                hint = 'nothing was published; the stage was swept, its topic deleted, or the server crashed: run it again';
        end if;
    end loop;
end $$;
