-- How a column of a table is read for a part of a record, as an expression over the row n. part: payload, key, group
-- key or headers. A column that is not given is null.
-- Only types of Postgres' own, and domains over them: what others have brought may run code of theirs when it is made
-- text, and this is read with our rights.
-- errors: TL001, TL002 the table has no such column
-- grants: none
create function trunkline.outbox_column(table_id oid, part text, column_name text) returns text
language plpgsql stable
as $$
declare
    texts        constant regtype[] := '{text,varchar,bpchar,name}';
    kinds        constant regtype[] := '{uuid,int2,int4,int8}';
    found_column record;
    type         record;
    fits         text;
begin
    if column_name is null and part <> 'payload' then
        return case when part = 'headers' then 'null::jsonb' else 'null::bytea' end;
    end if;
    select a.atttypid, a.attgenerated into found_column from pg_attribute a
    where a.attrelid = outbox_column.table_id and a.attname = outbox_column.column_name
        and a.attnum > 0 and not a.attisdropped;
    if not found then
        raise exception 'table % has no column % for the %', table_id::regclass,
            quote_ident(coalesce(column_name, '')), part using errcode = 'TL002', hint = format('its columns are %s', (
                select string_agg(a.attname, ', ' order by a.attnum) from pg_attribute a
                where a.attrelid = outbox_column.table_id and a.attnum > 0 and not a.attisdropped));
    end if;
    select t.oid, t.typtype, t.typbasetype, t.typnamespace into type from pg_type t where t.oid = found_column.atttypid;
    while type.typtype = 'd' loop
        select t.oid, t.typtype, t.typbasetype, t.typnamespace into type from pg_type t where t.oid = type.typbasetype;
    end loop;
    if part = 'headers' then
        fits := case when type.oid in ('json'::regtype, 'jsonb'::regtype) then 'n.%I::jsonb' end;
    elsif type.oid = 'bytea'::regtype then
        fits := 'n.%I';
    elsif type.oid = any (texts) or type.oid = any (case when part = 'payload' then '{json,jsonb}' else kinds end) then
        fits := 'pg_catalog.convert_to(n.%I::text, ''UTF8'')';
    elsif part = 'payload' and type.typnamespace = 'pg_catalog'::regnamespace and type.typtype in ('b', 'r', 'm') then
        fits := 'pg_catalog.convert_to(pg_catalog.to_json(n.%I)::text, ''UTF8'')';
    end if;
    if fits is null or found_column.attgenerated = 'v' then
        raise exception 'column % of table % is %, which cannot be the %', quote_ident(column_name), table_id::regclass,
            case when fits is null then '' else 'virtual ' end || format_type(found_column.atttypid, null), part
            using errcode = 'TL001', hint = case part
                when 'headers' then 'headers are json or jsonb: an object of text values, or an array of pairs'
                when 'payload' then 'name another one, or add a stored generated column of type text'
                else 'it is text, uuid, bytea or a whole number; name another, or add a stored generated column' end;
    end if;
    return format(fits, column_name);
end $$;
