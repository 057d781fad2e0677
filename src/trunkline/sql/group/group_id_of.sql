-- The id of a group by its name.
-- errors: TL001 TL002
-- grants: none
create function trunkline.group_id_of(name text) returns integer
language plpgsql volatile
as $$
declare
    group_id integer;
begin
    select g.group_id into group_id from trunkline.reader_group g where g.name = group_id_of.name collate "C";
    if not found then
        perform trunkline.group_check_name(name);
        raise exception 'group % does not exist', name using errcode = 'TL002',
            hint = format('create it: trunkline group create %s --topic TOPIC; or let the consumer create it', name);
    end if;
    return group_id;
end $$;
