-- Changes settings of a topic; see topic_apply_settings.
-- locks: the topic
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.topic_alter(topic text, settings jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.topic_id_of(topic);
begin
    perform trunkline.topic_lock(id);
    perform trunkline.topic_apply_settings(id, settings);
    perform trunkline.segment_define((select t.open_segment_id from trunkline.topic t where t.topic_id = id));
end $$;
