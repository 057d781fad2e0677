-- Sees to it that retention leaves segments alone while a batch of a sink has staged rows there: what was begun could not
-- be finished otherwise. Retention asks segment_is_awaited after it has locked the segment's row.
-- locks: the rows of the segments, shared
-- errors: TL019 where one is released already
-- grants: none
create function trunkline.sink_keep(stage_nos integer[]) returns void
language plpgsql volatile
as $$
begin
    perform from trunkline.segment g
    where g.segment_id in (select s.segment_id from trunkline.sink_stage s where s.stage_no = any (stage_nos))
    order by g.segment_id for share;
    if exists (select from trunkline.sink_stage s left join trunkline.segment g on g.segment_id = s.segment_id
        where s.stage_no = any (stage_nos) and (g.segment_id is null or g.released_at is not null)) then
        raise exception 'retention has taken a segment with staged records' using errcode = 'TL019',
            hint = 'nothing was published; run the batch again';
    end if;
end $$;
