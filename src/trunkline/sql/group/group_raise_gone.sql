-- Says that a cursor is not there any more, or never was.
-- errors: TL002, always
-- grants: none
create function trunkline.group_raise_gone(cursor_id integer) returns void
language plpgsql volatile
as $$
begin
    raise exception 'cursor % does not exist', coalesce(cursor_id::text, 'null') using errcode = 'TL002',
        hint = 'its group or its topic was deleted';
end $$;
