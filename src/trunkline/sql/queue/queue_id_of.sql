-- The id of a queue by its topic and name.
-- errors: TL001 TL002
-- grants: none
create function trunkline.queue_id_of(topic text, name text) returns integer
language plpgsql volatile
as $$
declare
    id integer;
begin
    select q.queue_id into id from trunkline.queue q
    where q.topic_id = trunkline.topic_id_of(topic) and q.name = queue_id_of.name collate "C";
    if not found then
        raise exception 'topic % has no queue %', topic, coalesce(quote_literal(left(name, 80)), 'null')
            using errcode = 'TL002', hint = '`trunkline queue list` shows those that there are';
    end if;
    return id;
end $$;
