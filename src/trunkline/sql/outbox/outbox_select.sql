-- How a row of an attached table becomes a record: the list of a select over n, with key, payload, group_key, headers.
-- errors: TL001, TL002 where the columns do not fit (any more)
-- grants: none
create function trunkline.outbox_select(source trunkline.outbox_source) returns text
language sql stable
as $$
    select format('%s as key, %s as payload, %s as group_key, %s as headers',
        trunkline.outbox_column(source.table_id, 'key', source.key_column),
        trunkline.outbox_column(source.table_id, 'payload', source.payload_column),
        trunkline.outbox_column(source.table_id, 'group key', source.group_key_column),
        trunkline.outbox_column(source.table_id, 'headers', source.headers_column))
$$;
