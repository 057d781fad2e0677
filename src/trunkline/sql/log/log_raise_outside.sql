-- Says that an offset lies outside the log, and which range is valid (also as the detail, for programs).
-- errors: TL005, always
-- grants: none
create function trunkline.log_raise_outside(topic_id integer, partition integer, at_offset bigint) returns void
language plpgsql volatile
as $$
declare
    valid record;
begin
    select r."start", r."end" into valid from trunkline.log_range(topic_id, partition) r;
    raise exception 'offset % is outside partition % of topic %, which holds [%, %)', at_offset, partition,
        (select t.name from trunkline.topic t where t.topic_id = log_raise_outside.topic_id), valid."start", valid."end"
        using errcode = 'TL005', detail = format('[%s, %s)', valid."start", valid."end"),
        hint = case when at_offset < valid."start" then 'retention has dropped it; go on at the start, or keep records longer'
            else 'it has not been written; the end is the next offset to be given out' end;
end $$;
