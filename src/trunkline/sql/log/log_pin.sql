-- What a position must carry to be kept outside the database: the topic's incarnation, the id of the batch that
-- holds the record before it (null at offset 1, or where retention has dropped that record), and the log epoch.
-- errors: TL002, TL005 where at_offset is outside [start, end]
-- grants: consumer
create function trunkline.log_pin(
    topic_id integer, partition integer, at_offset bigint,
    out incarnation bigint, out batch_id bigint, out log_epoch bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    valid record;
begin
    select r."start", r."end" into valid from trunkline.log_range(topic_id, partition) r;
    if at_offset is null or at_offset not between valid."start" and valid."end" then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    end if;
    select t.incarnation, m.log_epoch into incarnation, log_epoch from trunkline.topic t, trunkline.meta m
    where t.topic_id = log_pin.topic_id;
    if at_offset > valid."start" then
        select b.batch_id into batch_id
        from trunkline.log_read(topic_id, partition, at_offset - 1, 1, 1) b;
    end if;
end $$;
