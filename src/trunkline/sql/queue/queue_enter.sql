-- What a reader of a queue does first: finds it, or creates it where that is asked for, and gives it a part in every
-- partition of its topic. start ('earliest' or 'latest') says where a new queue begins; partitions that were added later
-- begin at their start. Settings that are null are as they are, or as they are by default; one that differs from an existing
-- queue's is refused.
-- locks: the queue, then the row of the topic
-- errors: TL001, TL002 the queue or the topic, 55P03
-- grants: consumer, admin
create function trunkline.queue_enter(
    topic_id integer, name text, may_create boolean, start text default 'earliest',
    ack_deadline_s double precision default null, max_attempts integer default null, dead_letter text default null,
    is_ordered boolean default null, pause_above double precision default null, bury_expired boolean default null,
    out queue_id integer, out settings jsonb, out part_ids integer[])
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    asked   constant jsonb := jsonb_strip_nulls(jsonb_build_object('ack_deadline_s', ack_deadline_s,
        'max_attempts', max_attempts, 'dead_letter', dead_letter, 'is_ordered', is_ordered, 'pause_above', pause_above,
        'bury_expired', bury_expired));
    wrong   record;
    is_made boolean := false;
begin
    perform trunkline.queue_check(name, start, asked, false);
    perform from trunkline.topic t where t.topic_id = queue_enter.topic_id for key share;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, null);
    end if;
    select q.queue_id into queue_id from trunkline.queue q
    where q.topic_id = queue_enter.topic_id and q.name = queue_enter.name collate "C";
    if not found then
        if not coalesce(may_create, false) then
            raise exception 'queue % of this topic does not exist', name using errcode = 'TL002',
                hint = 'create it: `trunkline queue create`';
        end if;
        perform trunkline.queue_check(name, start, asked, true);
        insert into trunkline.queue as q (topic_id, name, ack_deadline_s, max_attempts, dead_letter, is_ordered,
            pause_above, bury_expired, created_at)
        values (queue_enter.topic_id, queue_enter.name, coalesce(queue_enter.ack_deadline_s, 30),
            coalesce(queue_enter.max_attempts, case when queue_enter.dead_letter is not null then 5 end),
            queue_enter.dead_letter, coalesce(queue_enter.is_ordered, false), queue_enter.pause_above,
            coalesce(queue_enter.bury_expired, false), trunkline.clock_now())
        on conflict on constraint queue_topic_id_name_key do nothing
        returning q.queue_id into queue_id;
        is_made := queue_id is not null;
        if not is_made then
            -- Somebody else has made it just now.
            select q.queue_id into strict queue_id from trunkline.queue q
            where q.topic_id = queue_enter.topic_id and q.name = queue_enter.name collate "C";
        end if;
    end if;
    perform trunkline.queue_add_parts(queue_id, case when is_made then start else 'earliest' end);
    select trunkline.queue_settings(q) into settings from trunkline.queue q where q.queue_id = queue_enter.queue_id;
    for wrong in select a.key, a.value, settings -> a.key as is from jsonb_each(asked) a
        where settings -> a.key is distinct from a.value loop
        raise exception '% of queue % is %, not %', wrong.key, name, coalesce(wrong.is, 'null'), wrong.value
            using errcode = 'TL001', hint = 'leave it out to use the queue as it is, or change it: `trunkline queue alter`';
    end loop;
    part_ids := array(
        select p.part_id from trunkline.queue_part p join trunkline.topic_partition t using (partition_id)
        where p.queue_id = queue_enter.queue_id order by t.partition);
end $$;
