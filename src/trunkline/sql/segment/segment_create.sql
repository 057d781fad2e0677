-- Makes a topic's next segment: its table, its routines, its catalogue row. Partitions move there one by one.
-- lz4 is used where the server has it. The arrays get no statistics: nobody plans by them, and sampling them
-- would read every batch.
-- errors: TL004 when the database has 2,000 segments
-- grants: none
create function trunkline.segment_create(topic_id integer) returns integer
language plpgsql volatile
as $$
declare
    segment_id integer;
    table_name text;
    squeeze    text := '';
begin
    if (select count(*) from trunkline.segment) >= 2000 then
        raise exception 'this database has 2,000 segments, which is the limit' using errcode = 'TL004',
            hint = 'raise segment_bytes of the largest topics, or let retention drop old segments';
    end if;
    insert into trunkline.segment as s (topic_id, opened_at)
    values (segment_create.topic_id, trunkline.clock_now())
    returning s.segment_id into segment_id;
    table_name := 'segment_' || segment_id;
    if exists (select from pg_settings where name = 'default_toast_compression' and 'lz4' = any (enumvals)) then
        squeeze := 'compression lz4';
    end if;
    execute format($table$
        create table trunkline.%1$I (
            first_offset        bigint not null,
            append_time         timestamptz not null,
            batch_id            bigint not null,
            transaction_id      bigint not null,
            producer_no         bigint,
            partition           integer not null,
            record_count        integer not null,
            transaction_ordinal integer not null,
            transaction_count   integer not null,
            byte_count          integer not null,
            producer_sequence   integer,
            keys                bytea[] %2$s,
            payloads            bytea[] %2$s not null,
            header_counts       integer[] %2$s,
            header_names        text[] %2$s,
            header_values       bytea[] %2$s,
            primary key (partition, first_offset)
        ) with (autovacuum_vacuum_insert_threshold = -1)$table$, table_name, squeeze);
    execute format(
        'create unique index %I on trunkline.%I (producer_no, producer_sequence) where producer_no is not null',
        table_name || '_producer', table_name);
    execute format(
        'alter table trunkline.%I alter keys set statistics 0, alter payloads set statistics 0,
            alter header_counts set statistics 0, alter header_names set statistics 0,
            alter header_values set statistics 0', table_name);
    perform trunkline.outbox_define(segment_id);
    perform trunkline.segment_define_read(segment_id);
    -- The one before it learns that it is no longer the open one.
    perform trunkline.segment_define(s.segment_id) from (
        select x.segment_id from trunkline.segment x
        where x.topic_id = segment_create.topic_id order by x.segment_id desc limit 2) s;
    return segment_id;
end $$;
