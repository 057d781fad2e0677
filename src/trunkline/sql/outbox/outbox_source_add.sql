-- The part of outbox_attach that only we may do: refuses what cannot be attached, and notes the rest. Returns what is
-- needed to publish rows of the table.
-- errors: TL001, TL002 no such table, topic or column, TL003 attached already
-- grants: admin
create function trunkline.outbox_source_add(
    relation regclass, topic text, payload_column text, key_column text, group_key_column text, headers_column text,
    out topic_id integer, out incarnation bigint, out partitions integer, out records_max integer, out bytes_max bigint,
    out selected text)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    subject record;
    fault   text;
    source  trunkline.outbox_source;
begin
    select c.relkind, c.relpersistence, c.relispartition, s.nspname into subject
    from pg_class c join pg_namespace s on s.oid = c.relnamespace where c.oid = relation;
    if not found then
        raise exception 'there is no such table' using errcode = 'TL002',
            hint = 'name it as SQL does, with its schema and in double quotes where it needs them';
    elsif subject.nspname in ('trunkline', 'information_schema') or subject.nspname ~ '^pg_(?!temp)' then
        fault := format('is not a table of an application: it is in schema %s', subject.nspname);
    elsif subject.relpersistence = 't' then
        fault := 'is temporary: it ends with its session';
    elsif subject.relkind = 'p' or subject.relispartition then
        fault := 'is partitioned, or a partition: what is inserted on another level would pass its trigger by; publish '
            'with outbox_publish instead';
    elsif subject.relkind in ('v', 'm') then
        fault := 'is a view: attach the table that is written';
    elsif subject.relkind <> 'r' then
        fault := 'is no plain table';
    end if;
    if fault is not null then
        raise exception '% %', relation, fault using errcode = 'TL001', hint = 'attach a plain table';
    end if;
    outbox_source_add.topic_id := trunkline.topic_id_of(topic);
    select t.incarnation, t.partitions, least(t.batch_records_max, 1000), t.batch_bytes_max
    into incarnation, partitions, records_max, bytes_max
    from trunkline.topic t where t.topic_id = outbox_source_add.topic_id;
    -- A table that was dropped may have left its number to this one.
    delete from trunkline.outbox_source s where not exists (select from pg_class c where c.oid = s.table_id);
    insert into trunkline.outbox_source as s
    values (relation, relation::text, outbox_source_add.topic_id, outbox_source_add.incarnation, topic,
        outbox_source_add.payload_column, outbox_source_add.key_column, outbox_source_add.group_key_column,
        outbox_source_add.headers_column, session_user, trunkline.clock_now())
    on conflict on constraint outbox_source_pkey do nothing returning s.* into source;
    if source.table_id is null then
        raise exception 'table % is attached to topic % already', relation,
            (select s.topic_name from trunkline.outbox_source s where s.table_id = relation)
            using errcode = 'TL003', hint = format('detach it first: trunkline outbox detach %L', relation::text);
    end if;
    selected := trunkline.outbox_select(source);
end $$;
