-- Keeps the stages of a batch that needs more than one step: closes them, so that no late sink_put adds to what was
-- counted, and sees to it that retention leaves their segments alone; what was begun could not be finished otherwise.
-- Retention asks segment_is_awaited after it has locked the segment's row.
-- locks: the rows of the segments, shared: after the partitions, as sealing and deleting take them
-- errors: TL019 where one is released already
-- grants: none
create function trunkline.sink_keep(stage_nos integer[]) returns void
language plpgsql volatile
as $$
begin
    insert into trunkline.sink_stage (stage_no, segment_id, at)
    select n, 0, trunkline.clock_now() from unnest(stage_nos) n on conflict do nothing;
    perform from trunkline.segment g
    where g.segment_id in (select s.segment_id from trunkline.sink_stage s where s.stage_no = any (stage_nos))
    order by g.segment_id for share;
    if exists (select from trunkline.sink_stage s left join trunkline.segment g on g.segment_id = s.segment_id
        where s.stage_no = any (stage_nos) and s.segment_id > 0 and (g.segment_id is null or g.released_at is not null)) then
        raise exception 'retention has taken a segment with staged records' using errcode = 'TL019',
            hint = 'nothing was published; run the batch again';
    end if;
end $$;
