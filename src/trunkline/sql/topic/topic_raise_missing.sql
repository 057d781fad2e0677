-- Says what is missing: the topic, or the partition of it.
-- errors: TL002, always
-- grants: none
create function trunkline.topic_raise_missing(topic_id integer, partition integer) returns void
language plpgsql stable
as $$
declare
    topic record;
begin
    select t.name, t.partitions into topic from trunkline.topic t where t.topic_id = topic_raise_missing.topic_id;
    if not found then
        raise exception 'topic % does not exist, or was deleted', topic_id
            using errcode = 'TL002', hint = 'create it with topic_create or `trunkline topic create`';
    end if;
    raise exception 'topic % has no partition %', topic.name, coalesce(partition::text, 'null')
        using errcode = 'TL002', hint = format('its partitions are 0 to %s', topic.partitions - 1);
end $$;
