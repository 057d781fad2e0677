-- Changes settings of a queue: those that are named in an object; null takes one back to what it is by default.
-- Claims that are held keep their deadlines. To become ordered, a queue must have none.
-- locks: the queue; its parts in ascending order, where it becomes ordered
-- errors: TL001 TL002 TL014, 55P03
-- grants: admin
create function trunkline.queue_alter(topic text, name text, settings jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id    constant integer := trunkline.queue_id_of(topic, name);
    known constant text[] := array['ack_deadline_s', 'max_attempts', 'dead_letter', 'is_ordered', 'pause_above',
        'bury_expired', 'table_bytes'];
    wrong text;
    after jsonb;
begin
    select k into wrong from jsonb_object_keys(settings) k where k <> all (known) limit 1;
    if wrong is not null then
        raise exception 'a queue has no setting %', quote_literal(wrong) using errcode = 'TL001',
            hint = 'settings: ' || array_to_string(known, ', ');
    end if;
    perform trunkline.lock_queue(id);
    select trunkline.queue_settings(q) || jsonb_build_object('table_bytes', q.table_bytes) || settings into after
    from trunkline.queue q where q.queue_id = id for update;
    perform trunkline.queue_check(name, 'earliest', after, true);
    if not coalesce((after ->> 'table_bytes')::bigint >= 65536, true) then
        raise exception 'table_bytes must be at least 65536' using errcode = 'TL001';
    end if;
    if (after ->> 'is_ordered')::boolean and not (select q.is_ordered from trunkline.queue q where q.queue_id = id) then
        -- Nothing is claimed until this has ended.
        perform trunkline.lock_part(p.part_id) from (
            select x.part_id from trunkline.queue_part x where x.queue_id = id order by x.part_id) p;
        if exists (select from trunkline.queue_claims(topic, name)) then
            raise exception 'records of queue % of topic % are held, or wait to be delivered again: it cannot become ordered now',
                name, topic using errcode = 'TL014', hint = 'pause it, and let its readers settle what they have';
        end if;
    end if;
    update trunkline.queue q set
        ack_deadline_s = coalesce((after ->> 'ack_deadline_s')::double precision, 30),
        max_attempts = coalesce((after ->> 'max_attempts')::integer, case when after ->> 'dead_letter' is not null then 5 end),
        dead_letter = after ->> 'dead_letter',
        is_ordered = coalesce((after ->> 'is_ordered')::boolean, false),
        pause_above = (after ->> 'pause_above')::double precision,
        bury_expired = coalesce((after ->> 'bury_expired')::boolean, false),
        table_bytes = coalesce((after ->> 'table_bytes')::bigint, 67108864)
    where q.queue_id = id;
    perform trunkline.queue_redefine(id);
exception when invalid_text_representation or numeric_value_out_of_range then
    raise exception 'a setting is of the wrong type: %', sqlerrm using errcode = 'TL001';
end $$;
