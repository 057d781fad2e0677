-- Creates a topic with its partitions and its first segment.
-- settings: see topic_apply_settings; null or {} for the defaults.
-- errors: TL001 TL003 TL004
-- grants: admin
create function trunkline.topic_create(name text, partitions integer default 1, settings jsonb default '{}')
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    new_id integer;
begin
    perform trunkline.topic_check_name(name);
    if partitions is null or partitions not between 1 and 1024 then
        raise exception 'a topic has 1 to 1024 partitions, not %', coalesce(partitions::text, 'null')
            using errcode = 'TL001';
    end if;
    insert into trunkline.topic (incarnation, name, partitions, open_segment_id, created_at)
    values (trunkline.random_bigint(), topic_create.name, topic_create.partitions, 0, trunkline.clock_now())
    on conflict on constraint topic_name_key do nothing
    returning topic.topic_id into new_id;
    if new_id is null then
        raise exception 'topic % exists already', name using errcode = 'TL003',
            hint = 'describe it with `trunkline topic describe`, or alter it';
    end if;
    perform trunkline.topic_apply_settings(new_id, coalesce(settings, '{}'));
    update trunkline.topic t set open_segment_id = trunkline.segment_create(new_id)
    where t.topic_id = new_id;
    perform trunkline.partition_create(new_id, 0, partitions - 1);
    perform trunkline.segment_define((select t.open_segment_id from trunkline.topic t where t.topic_id = new_id));
    return new_id;
end $$;
