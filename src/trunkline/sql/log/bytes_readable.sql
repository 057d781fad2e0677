-- Bytes as text where they are UTF-8, else as \x and hexadecimal digits.
-- grants: consumer
create function trunkline.bytes_readable(value bytea) returns text
language plpgsql stable
as $$
begin
    return convert_from(value, 'UTF8');
exception when character_not_in_repertoire or untranslatable_character then
    return value::text;
end $$;
