-- The queues of a topic, or all of them.
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.queue_list(topic text default null)
returns table (topic_name text, name text, settings jsonb, created_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    only_id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select t.name, q.name, trunkline.queue_settings(q), q.created_at
        from trunkline.queue q join trunkline.topic t using (topic_id)
        where only_id is null or q.topic_id = only_id order by t.name, q.name;
end $$;
