-- The id of a topic by its name.
-- errors: TL001 TL002
-- grants: none
create function trunkline.topic_id_of(name text) returns integer
language plpgsql stable
as $$
declare
    topic_id integer;
begin
    select t.topic_id into topic_id from trunkline.topic t where t.name = topic_id_of.name collate "C";
    if not found then
        perform trunkline.topic_check_name(name);
        raise exception 'topic % does not exist', name
            using errcode = 'TL002', hint = format('create it: trunkline topic create %s', name);
    end if;
    return topic_id;
end $$;
