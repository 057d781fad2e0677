-- Everything the schema consists of, one row an object, with what defines it; objects of segments and of queues' claims aside.
select 'column ' || c.relname || '.' || a.attname as object,
    format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
        || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') || ' ' || a.attidentity::text as definition
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_catalog.pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relnamespace = 'trunkline'::regnamespace and c.relkind = 'r' and c.relname !~ '^(segment|claim|closure)_[0-9]+$'
union all
select 'constraint ' || c.conrelid::regclass::text || '.' || c.conname, pg_get_constraintdef(c.oid)
from pg_catalog.pg_constraint c
where c.connamespace = 'trunkline'::regnamespace and c.contype <> 'n' and c.conrelid::regclass::text !~ '(segment|claim|closure)_[0-9]+$'
union all
select 'index ' || i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indrelid
where c.relnamespace = 'trunkline'::regnamespace and c.relname !~ '^(segment|claim|closure)_[0-9]+$'
union all
select 'function ' || p.oid::regprocedure::text,
    case when p.proname = 'lock_class' then 'chosen at install' else pg_get_functiondef(p.oid) end
from pg_catalog.pg_proc p
where p.pronamespace = 'trunkline'::regnamespace and p.proname !~ '^(segment_[0-9]+_(append|read|take)|claim_[0-9]+_(ready|take|settle|step))$'
union all
select 'trigger ' || t.tgrelid::regclass::text || '.' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'trunkline'::regnamespace and not t.tgisinternal
union all
select 'privilege ' || p.oid::regprocedure::text, 'not for public'
from pg_catalog.pg_proc p
where p.pronamespace = 'trunkline'::regnamespace and not has_function_privilege('public', p.oid, 'execute')
    and p.proname !~ '^(segment_[0-9]+_(append|read|take)|claim_[0-9]+_(ready|take|settle|step))$'
union all
select 'type ' || t.oid::regtype::text, string_agg(a.attname || ' ' || a.atttypid::regtype, ', ' order by a.attnum)
from pg_catalog.pg_type t join pg_catalog.pg_class c on c.oid = t.typrelid and c.relkind = 'c'
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
where t.typnamespace = 'trunkline'::regnamespace group by t.oid
order by 1
