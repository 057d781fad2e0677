-- The next rows of stages that have not been published yet, at most rows_max, in the order of the stages and in that of
-- each stage.
-- errors: TL002 a topic, or a partition of it, that was deleted, TL019 a segment that was dropped
-- grants: none
create function trunkline.sink_staged(stage_nos integer[], rows_max integer) returns trunkline.staged_batch[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    place  record;
    found_rows trunkline.staged_batch[];
    staged trunkline.staged_batch[] := '{}';
begin
    for place in select u.stage_no, s.segment_id, g.topic_id
        from unnest(stage_nos) with ordinality u(stage_no, at) join trunkline.sink_stage s on s.stage_no = u.stage_no
        left join trunkline.segment g on g.segment_id = s.segment_id
        where s.segment_id > 0 order by u.at, s.segment_id loop
        exit when cardinality(staged) >= rows_max;
        if place.topic_id is null then
            raise exception 'segment %, which holds staged records, was dropped', place.segment_id using errcode = 'TL019',
                hint = 'was the topic deleted? then start the query anew, with a new checkpoint';
        end if;
        execute format(
            'select array_agg(($1, $2, x.first_offset, p.partition_id, x.record_count)::trunkline.staged_batch
                 order by x.first_offset)
             from (select b.first_offset, b.record_count, b.transaction_ordinal as partition from trunkline.%I b
                 where b.partition = -$1 order by b.first_offset limit $3) x
             left join trunkline.topic_partition p on p.topic_id = $4 and p.partition = x.partition',
            'segment_' || place.segment_id)
            into found_rows using place.stage_no, place.segment_id, rows_max - cardinality(staged), place.topic_id;
        if exists (select from unnest(found_rows) r where r.partition_id is null) then
            perform trunkline.topic_raise_missing(place.topic_id, null);
        end if;
        staged := staged || coalesce(found_rows, '{}');
    end loop;
    return staged;
end $$;
