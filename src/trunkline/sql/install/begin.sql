-- One installer at a time, and only into a schema that is ours, or new, or empty.
set local check_function_bodies = off;
set local client_min_messages = warning;
set local lock_timeout = '30s';
set transaction isolation level read committed;
select pg_catalog.pg_advisory_xact_lock(1953656430, 1);
do $do$
begin
    if to_regnamespace('trunkline') is null then
        create schema trunkline;
    elsif to_regclass('trunkline.meta') is null and exists (
        select from pg_catalog.pg_class c where c.relnamespace = 'trunkline'::regnamespace
        union all
        select from pg_catalog.pg_proc p where p.pronamespace = 'trunkline'::regnamespace) then
        raise exception 'this database has a schema "trunkline" that was not made by Trunkline'
            using errcode = 'TL023', hint = 'rename or drop that schema, or install into another database';
    end if;
end $do$;
