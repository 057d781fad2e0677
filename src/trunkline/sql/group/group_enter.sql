-- What a consumer does first: finds its group, or creates it where that is asked for, and lets it read its topics (see
-- group_begin). Returns the group's id.
-- locks: the group, where it begins to read something
-- errors: TL001, TL002 the group or a topic, TL005, 55P03
-- grants: consumer, admin
create function trunkline.group_enter(
    name text, topic_ids integer[], may_create boolean, start text default 'earliest', at_offset bigint default null,
    at_time timestamptz default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id      integer;
    made_id integer;
begin
    if (cardinality(topic_ids) >= 1) is not true then
        raise exception 'a consumer reads at least one topic' using errcode = 'TL001';
    end if;
    if may_create then
        perform trunkline.group_check_name(name);
        insert into trunkline.reader_group as g (incarnation, name, created_at)
        select trunkline.random_bigint(), group_enter.name, trunkline.clock_now()
        where not exists (select from trunkline.reader_group x where x.name = group_enter.name collate "C")
        on conflict on constraint reader_group_name_key do nothing
        returning g.group_id into made_id;
    end if;
    id := coalesce(made_id, trunkline.group_id_of(name));
    perform trunkline.group_begin(id, t.topic_id, start, at_offset, at_time)
    from (select distinct u.topic_id from unnest(topic_ids) u(topic_id)) t
    where trunkline.group_misses(id, t.topic_id);
    return id;
end $$;
