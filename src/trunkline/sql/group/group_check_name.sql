-- Refuses what cannot be a group's name: it follows the rules of a topic's.
-- errors: TL001
-- grants: none
create function trunkline.group_check_name(name text) returns void
language plpgsql immutable
as $$
begin
    if name is null or name collate "C" !~ '^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$' or position('..' in name) > 0 then
        raise exception 'not a group name: %', coalesce(quote_literal(left(name, 80)), 'null')
            using errcode = 'TL001',
            hint = '1 to 200 of A-Z a-z 0-9 . _ - /, no leading dash, dot or slash, no two dots in a row';
    end if;
end $$;
