-- Creates a group and lets it read topics; where it begins in them, see group_begin.
-- errors: TL001 TL002 TL003 TL005
-- grants: consumer, admin
create function trunkline.group_create(
    name text, topics text[] default '{}', start text default 'earliest', at_offset bigint default null,
    at_time timestamptz default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    new_id integer;
begin
    perform trunkline.group_check_name(name);
    insert into trunkline.reader_group as g (incarnation, name, created_at)
    values (trunkline.random_bigint(), group_create.name, trunkline.clock_now())
    on conflict on constraint reader_group_name_key do nothing
    returning g.group_id into new_id;
    if new_id is null then
        raise exception 'group % exists already', name using errcode = 'TL003',
            hint = 'describe it with `trunkline group describe`, or move it with `trunkline group seek`';
    end if;
    perform trunkline.group_begin(new_id, trunkline.topic_id_of(t.name), start, at_offset, at_time)
    from (select distinct u.name from unnest(topics) u(name)) t;
    return new_id;
end $$;
