-- Whether a segment has staged rows of a batch that a sink has begun and not finished.
-- grants: none
create function trunkline.segment_is_awaited(segment_id integer) returns boolean
language sql volatile
as $$
    select exists (select from trunkline.sink k cross join lateral (
            select max(l.batch_id) as batch_id from trunkline.sink_ledger l where l.sink_no = k.sink_no) newest
        join trunkline.sink_ledger b on b.sink_no = k.sink_no and b.batch_id = newest.batch_id and b.kind = 'b'
        where not exists (select from trunkline.sink_ledger d
                where d.sink_no = k.sink_no and d.batch_id = newest.batch_id and d.kind = 'd')
            and exists (select from trunkline.sink_stage s
                where s.segment_id = segment_is_awaited.segment_id and s.stage_no = any (b.stage_nos)))
$$;
