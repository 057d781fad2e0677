-- Headers as a person writes them, as the log keeps them: an object of text values, or an array of [name, value] pairs
-- where a name repeats. All three are null where there are none.
-- errors: TL001
-- grants: none
create function trunkline.headers_of_json(
    headers jsonb, out counts integer[], out names text[], out "values" bytea[])
language plpgsql immutable
as $$
declare
    pairs jsonb := headers;
begin
    if headers is null then
        return;
    elsif jsonb_typeof(headers) = 'object' then
        pairs := (select coalesce(jsonb_agg(jsonb_build_array(e.key, e.value)), '[]') from jsonb_each(headers) e);
    end if;
    if jsonb_typeof(pairs) <> 'array' or exists (
        select from jsonb_array_elements(pairs) p where jsonb_typeof(p) <> 'array' or jsonb_array_length(p) <> 2
            or jsonb_typeof(p -> 0) <> 'string' or jsonb_typeof(p -> 1) <> 'string') then
        raise exception 'headers must be an object of strings, or an array of [name, value] pairs of strings'
            using errcode = 'TL001';
    elsif pairs = '[]' then
        return;
    end if;
    select array[count(*)::integer], array_agg(p.pair ->> 0 order by p.n),
        array_agg(convert_to(p.pair ->> 1, 'UTF8') order by p.n)
    into counts, names, "values" from jsonb_array_elements(pairs) with ordinality p(pair, n);
end $$;
