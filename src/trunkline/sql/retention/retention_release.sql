-- Moves the log start of a topic past the sealed segments that its retention no longer keeps: those whose newest
-- record is older than retention_age_s, the oldest ones while all of them together are over retention_bytes, and, with
-- retention_consumed, those that every group of the topic has passed. Age and bytes wait for nobody; consumption waits for
-- a first group. All of them wait for a sink that is halfway through publishing what it has staged there.
-- What queues with bury_expired have not done yet goes to their dead letters first.
-- A segment goes only after every older one. Returns what was released; drop each with segment_drop after this
-- transaction has committed.
-- locks: the topic
-- errors: TL002, 55P03
-- grants: admin
create function trunkline.retention_release(topic_id integer)
returns table (segment_id integer, reason text, record_count bigint, byte_count bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    topic   record;
    segment record;
    total   bigint;
begin
    perform trunkline.topic_lock(topic_id);
    select t.retention_age_s, t.retention_bytes, t.retention_consumed into topic
    from trunkline.topic t where t.topic_id = retention_release.topic_id;
    if not found then
        return;
    end if;
    select sum(coalesce(s.byte_count, pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id))))
    into total from trunkline.segment s where s.topic_id = retention_release.topic_id and s.released_at is null;
    for segment in select s.segment_id, s.last_append_time, s.byte_count, s.sealed_at
        from trunkline.segment s
        where s.topic_id = retention_release.topic_id and s.released_at is null order by s.segment_id loop
        exit when segment.sealed_at is null;
        reason := case
            when coalesce(segment.last_append_time, segment.sealed_at)
                < trunkline.clock_now() - topic.retention_age_s * interval '1 second' then 'age'
            when total > topic.retention_bytes then 'bytes'
            when topic.retention_consumed and trunkline.segment_is_consumed(segment.segment_id) then 'consumed' end;
        exit when reason is null;
        -- Locked before it is looked at: a sink that begins meanwhile holds the row, and is seen in a later statement.
        perform from trunkline.segment s where s.segment_id = segment.segment_id for update;
        exit when trunkline.segment_is_awaited(segment.segment_id);
        segment_id := segment.segment_id;
        byte_count := segment.byte_count;
        record_count := (
            select sum(n.first_offset - sp.first_offset) from trunkline.segment_partition sp, lateral (
                select x.first_offset from trunkline.segment_partition x
                where x.partition_id = sp.partition_id and x.segment_id > sp.segment_id
                order by x.segment_id limit 1) n
            where sp.segment_id = segment.segment_id);
        if reason <> 'consumed' then
            perform trunkline.queue_bury_expired(segment.segment_id);
        end if;
        update trunkline.segment s set released_at = trunkline.clock_now()
        where s.segment_id = segment.segment_id;
        total := total - segment.byte_count;
        return next;
    end loop;
end $$;
