-- Sets the given settings of a topic, and leaves the others. null takes a limit of retention away, and puts any
-- other setting back to its default.
-- locks: none; the caller holds the topic's lock
-- errors: TL001 for a setting that is not known, or a value that is out of its range
-- grants: none
create function trunkline.topic_apply_settings(topic_id integer, settings jsonb) returns void
language plpgsql volatile
as $$
declare
    name  text;
    value jsonb;
    known constant text[] := array['retention_age_s', 'retention_bytes', 'segment_bytes', 'segment_age_s',
        'record_bytes_max', 'batch_bytes_max', 'batch_records_max', 'key_bytes_max', 'header_count_max',
        'header_bytes_max', 'retention_consumed', 'notify_in_commit', 'loose_commit_order'];
    switches constant text[] := array['retention_consumed', 'notify_in_commit', 'loose_commit_order'];
begin
    if jsonb_typeof(settings) is distinct from 'object' then
        raise exception 'settings must be a JSON object' using errcode = 'TL001';
    end if;
    for name, value in select * from jsonb_each(settings) loop
        if name <> all (known) then
            raise exception 'a topic has no setting %', quote_literal(left(name, 80)) using errcode = 'TL001',
                hint = 'its settings are ' || array_to_string(known, ', ');
        elsif jsonb_typeof(value) = 'null' then
            execute format('update trunkline.topic set %I = default where topic_id = $1', name) using topic_id;
        elsif name = any (switches) then
            if jsonb_typeof(value) <> 'boolean' then
                raise exception '% must be true or false, not %', name, left(value::text, 80) using errcode = 'TL001';
            end if;
            execute format('update trunkline.topic set %I = $2 where topic_id = $1', name)
                using topic_id, value::boolean;
        elsif jsonb_typeof(value) <> 'number' or value::numeric <> trunc(value::numeric)
            or abs(value::numeric) > 9223372036854775807 then
            raise exception '% must be a whole number, not %', name, left(value::text, 80) using errcode = 'TL001';
        else
            begin
                execute format('update trunkline.topic set %I = $2 where topic_id = $1', name)
                    using topic_id, value::numeric::bigint;
            exception when check_violation or numeric_value_out_of_range then
                raise exception '% = % is out of range', name, value using errcode = 'TL001',
                    hint = (select pg_get_constraintdef(c.oid) from pg_constraint c
                        where c.conrelid = 'trunkline.topic'::regclass and c.conname = 'topic_' || name || '_check');
            end;
        end if;
    end loop;
    perform from trunkline.topic t where t.topic_id = topic_apply_settings.topic_id and t.retention_consumed
        and t.retention_age_s is null and t.retention_bytes is null;
    if found then
        raise exception 'retention_consumed needs retention_age_s or retention_bytes as well' using errcode = 'TL001',
            hint = 'it is the cap that keeps a forgotten group from filling the disk';
    end if;
end $$;
