-- Pauses a queue of which more than pause_above of the last 100 deliveries failed: were given back, rejected,
-- dead-lettered, or not settled in time. Deliveries before it was resumed do not count.
-- locks: the queue, where it pauses it
-- errors: 55P03
-- grants: none
create function trunkline.queue_break(queue_id integer) returns void
language plpgsql volatile
as $$
declare
    queue  record;
    part   record;
    done   bigint := 0;
    failed bigint := 0;
    rows   jsonb := '[]';
    more   jsonb;
begin
    select q.pause_above, coalesce(q.resumed_at, '-infinity') as since, q.paused_at into queue
    from trunkline.queue q where q.queue_id = queue_break.queue_id;
    if queue.pause_above is null or queue.paused_at is not null then
        return;
    end if;
    for part in select p.part_id, p.table_no from trunkline.queue_part p where p.queue_id = queue_break.queue_id loop
        execute format(
            'select coalesce(jsonb_agg(jsonb_build_array(l.at, l.records, l.kind in (''n'', ''d'', ''j'', ''t''))), ''[]'')
             from (select c.claim_no from trunkline.claim_%1$s c where c.part_id = $1 and c.kind = ''c''
                 order by c.claim_no desc limit 200) c
             join trunkline.closure_%1$s l on l.part_id = $1 and l.claim_no = c.claim_no
             where l.at > $2 and l.records > 0 and l.kind <> ''r''', part.table_no)
        into more using part.part_id, queue.since;
        rows := rows || more;
    end loop;
    select sum(x.counted), sum(x.counted) filter (where x.is_failed) into done, failed
    from (
        select r.is_failed, greatest(least(r.records, 100 - coalesce(sum(r.records) over (
            order by r.at desc rows between unbounded preceding and 1 preceding), 0)), 0) as counted
        from (
            select (v ->> 0)::timestamptz as at, (v ->> 1)::bigint as records, (v ->> 2)::boolean as is_failed
            from jsonb_array_elements(rows) v) r) x;
    -- Whoever has the queue's lock may be waiting for a part that this caller holds: the next failure pauses it then.
    if done >= 100 and failed > queue.pause_above * done
        and pg_try_advisory_xact_lock(trunkline.lock_class() + 8, queue_id) then
        update trunkline.queue q set paused_at = trunkline.clock_now(),
            pause_reason = format('%s of the last 100 deliveries failed', failed)
        where q.queue_id = queue_break.queue_id;
        perform trunkline.queue_redefine(queue_id);
    end if;
end $$;
