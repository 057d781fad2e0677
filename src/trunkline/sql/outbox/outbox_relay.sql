-- Called after each insert into an attached table (outbox_attach): publishes the new rows in the transaction that
-- inserts them, in the order of the statement. Runs with our rights: who inserts needs no grant of ours.
-- errors: TL002 the topic was deleted, or the table is not attached; TL001 a row without a payload; those of outbox_put
--     and outbox_column; 40001 where the table was attached after the snapshot of a REPEATABLE READ transaction
-- grants: admin
create or replace function trunkline.outbox_relay() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    source     trunkline.outbox_source;
    topic      record;
    fresh      record;
    keys       bytea[] := '{}';
    payloads   bytea[] := '{}';
    group_keys bytea[] := '{}';
    headers    jsonb[] := '{}';
    records    integer := 0;
    bytes      bigint := 0;
begin
    select s.* into source from trunkline.outbox_source s where s.table_id = tg_relid;
    if not found then
        if current_setting('transaction_isolation') <> 'read committed' then
            raise exception 'table % was attached to a topic after this transaction began', tg_relid::regclass
                using errcode = '40001', hint = 'run the transaction again';
        end if;
        raise exception 'table % has a trigger of the outbox, but is attached to no topic', tg_relid::regclass
            using errcode = 'TL002', hint = format('drop trigger %I on %s, or attach it: trunkline outbox attach',
                tg_name, tg_relid::regclass);
    end if;
    select t.partitions, least(t.batch_records_max, 1000) as records_max, t.batch_bytes_max into topic
    from trunkline.topic t where t.topic_id = source.topic_id and t.incarnation = source.incarnation;
    if not found then
        raise exception 'table % is attached to topic %, which was deleted', tg_relid::regclass, source.topic_name
            using errcode = 'TL002', hint = format('run: trunkline outbox detach %L, and attach it to another topic '
                'if its rows are still to be published', tg_relid::regclass::text);
    end if;
    for fresh in execute format('select %s from new_rows n', trunkline.outbox_select(source)) loop
        if fresh.payload is null then
            raise exception 'column % of a new row of table % is null: a record needs a payload',
                quote_ident(source.payload_column), tg_relid::regclass using errcode = 'TL001',
                hint = 'give it a value, or detach the table: trunkline outbox detach';
        end if;
        if records = topic.records_max
            or records > 0 and bytes + octet_length(fresh.payload) > topic.batch_bytes_max then
            perform trunkline.outbox_put_rows(source.topic_id, source.incarnation, topic.partitions, keys, payloads,
                group_keys, headers);
            keys := '{}';
            payloads := '{}';
            group_keys := '{}';
            headers := '{}';
            records := 0;
            bytes := 0;
        end if;
        keys := array_append(keys, fresh.key);
        payloads := array_append(payloads, fresh.payload);
        group_keys := array_append(group_keys, fresh.group_key);
        headers := array_append(headers, fresh.headers);
        records := records + 1;
        bytes := bytes + octet_length(fresh.payload);
    end loop;
    if records > 0 then
        perform trunkline.outbox_put_rows(source.topic_id, source.incarnation, topic.partitions, keys, payloads,
            group_keys, headers);
    end if;
    return null;
end $$;
