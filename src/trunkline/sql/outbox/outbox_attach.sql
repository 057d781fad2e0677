-- Publishes every row that is inserted into a table of the application's from now on, in the transaction that inserts
-- it: what is in the table is in the topic, and the other way round.
--     select trunkline.outbox_attach('outbox_message_t', 'orders', 'payload', key_column => 'host_id');
-- With order_by the rows that are there already are published first, in the order of that column (then as they are
-- stored), each once, before any newer row. Then nobody can write to the table until the caller commits, and as much is
-- kept twice until then. Notices say how far it has come. Returns how many they were.
-- Runs with the caller's rights, who must be allowed to put a trigger on the table.
-- locks: the table in SHARE ROW EXCLUSIVE mode, until the transaction ends; at the commit as outbox_put
-- errors: TL001, TL002 no such table, topic or column, TL003 attached already, 42501, 55P03
-- grants: admin
create function trunkline.outbox_attach(
    relation regclass, topic text, payload_column text, key_column text default null,
    group_key_column text default null, headers_column text default null, order_by text default null)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, trunkline, pg_temp
set row_security = off    -- rows that a policy hides from the caller are an error, not left out
as $$
declare
    source     record;
    old_row    record;
    keys       bytea[] := '{}';
    payloads   bytea[] := '{}';
    group_keys bytea[] := '{}';
    headers    jsonb[] := '{}';
    records    integer := 0;
    bytes      bigint := 0;
    relayed    bigint := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'a table is attached in a READ COMMITTED transaction: others would miss rows'
            using errcode = 'TL001', hint = 'begin it with: begin isolation level read committed';
    end if;
    source := trunkline.outbox_source_add(relation, topic, payload_column, key_column, group_key_column,
        headers_column);
    if not has_table_privilege(relation, 'trigger') then
        raise exception '% may not put a trigger on table %', current_user, relation using errcode = '42501',
            hint = format('run it as the owner of the table, or let its owner run: grant trigger on %s to %I', relation,
                current_user);
    end if;
    -- From here on nobody writes, and who was writing has ended: the rows are read in a later statement.
    execute format('create trigger trunkline_outbox after insert on %s referencing new table as new_rows '
        'for each statement execute function trunkline.outbox_relay()', relation);
    if order_by is null then
        return 0;
    elsif not exists (select from pg_attribute a where a.attrelid = relation and a.attname = order_by
            and a.attnum > 0 and not a.attisdropped) then
        raise exception 'table % has no column % to order by', relation, quote_ident(order_by) using errcode = 'TL002';
    end if;
    for old_row in execute format('select %s from only %s n order by n.%I, n.ctid', source.selected, relation, order_by)
    loop
        if old_row.payload is null then
            raise exception 'column % of a row of table % is null: a record needs a payload',
                quote_ident(payload_column), relation using errcode = 'TL001',
                hint = 'give it a value, or delete the row';
        end if;
        if records = source.records_max or records > 0 and bytes + octet_length(old_row.payload) > source.bytes_max then
            perform trunkline.outbox_put_rows(source.topic_id, source.incarnation, source.partitions, keys, payloads,
                group_keys, headers);
            raise notice '% rows', relayed using errcode = '00000', detail = relayed::text;
            keys := '{}';
            payloads := '{}';
            group_keys := '{}';
            headers := '{}';
            records := 0;
            bytes := 0;
        end if;
        keys := array_append(keys, old_row.key);
        payloads := array_append(payloads, old_row.payload);
        group_keys := array_append(group_keys, old_row.group_key);
        headers := array_append(headers, old_row.headers);
        records := records + 1;
        relayed := relayed + 1;
        bytes := bytes + octet_length(old_row.payload);
    end loop;
    if records > 0 then
        perform trunkline.outbox_put_rows(source.topic_id, source.incarnation, source.partitions, keys, payloads,
            group_keys, headers);
    end if;
    return relayed;
end $$;
