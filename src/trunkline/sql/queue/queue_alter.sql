-- Changes settings of a queue: those that are named in an object; null takes one back to what it is by default.
-- Claims that are held keep their deadlines.
-- locks: the queue
-- errors: TL001 TL002, 55P03
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
    select trunkline.queue_settings(q) || jsonb_build_object('table_bytes', q.table_bytes) || settings into after
    from trunkline.queue q where q.queue_id = id for update;
    perform trunkline.queue_check(name, 'earliest', after, true);
    if not coalesce((after ->> 'table_bytes')::bigint >= 65536, true) then
        raise exception 'table_bytes must be at least 65536' using errcode = 'TL001';
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
