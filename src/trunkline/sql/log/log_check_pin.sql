-- Proves that a position kept outside the database still stands in the log it was taken from.
-- Its record before is there with the same batch id: go on. Another batch id, or beyond the tip: the log was
-- restored, or a replica that lagged took over. Dropped by retention: the log epoch decides, which
-- `trunkline db after-restore` raises.
-- errors: TL006; TL002 for a topic made again; TL005 where the position itself is gone
-- grants: consumer
create function trunkline.log_check_pin(
    topic_id integer, partition integer, at_offset bigint, incarnation bigint, batch_id bigint, log_epoch bigint)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    valid record;
    now_is record;
    fault text;
    found_batch bigint;
begin
    select t.name, t.incarnation, m.log_epoch into now_is from trunkline.topic t, trunkline.meta m
    where t.topic_id = log_check_pin.topic_id;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    elsif now_is.incarnation is distinct from log_check_pin.incarnation then
        raise exception 'topic % was deleted and created again since this position was taken', now_is.name
            using errcode = 'TL002', hint = 'start the reader anew: this is another topic under the same name';
    end if;
    select r."start", r."end" into valid from trunkline.log_range(topic_id, partition) r;
    if at_offset is null or at_offset < 1 then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    elsif at_offset > valid."end" then
        fault := format('offset %s is beyond the end, %s', at_offset, valid."end");
    elsif batch_id is not null and at_offset > valid."start" then
        select b.batch_id into found_batch from trunkline.log_read(topic_id, partition, at_offset - 1, 1, 1) b;
        if found_batch <> log_check_pin.batch_id then
            fault := format('offset %s holds another record than the one that was read', at_offset - 1);
        end if;
    elsif log_epoch is distinct from now_is.log_epoch then
        fault := format('its records were taken in log epoch %s, and this is epoch %s', log_epoch, now_is.log_epoch);
    end if;
    if fault is not null then
        raise exception 'the log of topic %, partition %, is not the one this position was taken from: %',
            now_is.name, partition, fault using errcode = 'TL006',
            hint = 'the database was restored, or a lagging replica took over; compare what was read, then start anew';
    elsif at_offset < valid."start" then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    end if;
end $$;
