-- Opens a topic's next segment if `segment_id` is still the open one, and (unless forced) full. A publish never
-- does this itself: making a table would hold its partition's lock. Returns the open segment.
-- locks: the topic
-- errors: TL002 TL004, 55P03
-- grants: admin
create function trunkline.segment_roll(segment_id integer, force boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id   integer;
    open integer;
begin
    select s.topic_id into id from trunkline.segment s where s.segment_id = segment_roll.segment_id;
    if not found then
        raise exception 'segment % does not exist', segment_id using errcode = 'TL002';
    end if;
    perform trunkline.topic_lock(id);
    select t.open_segment_id into open from trunkline.topic t where t.topic_id = id;
    if open = segment_id and (coalesce(force, false) or trunkline.segment_is_full(segment_id)) then
        open := trunkline.segment_create(id);
        update trunkline.topic t set open_segment_id = open where t.topic_id = id;
        perform trunkline.queue_redefine(q.queue_id) from (
            select x.queue_id from trunkline.queue x where x.topic_id = id order by x.queue_id) q;
    end if;
    return open;
end $$;
