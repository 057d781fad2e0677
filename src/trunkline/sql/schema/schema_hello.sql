-- The first call of a client: says what this schema is, and refuses a client that it no longer serves.
-- client_port is the port the server sees the client at; where the client's own socket has another, a pooler
-- stands between them. is_standby: the server is a standby, which takes no writes.
-- errors: TL022
-- grants: producer, consumer, admin
create function trunkline.schema_hello(
    client integer, out schema_version integer, out oldest_client integer, out log_epoch bigint,
    out client_port integer, out is_standby boolean, out server_version integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    select m.schema_version, m.oldest_client, m.log_epoch into schema_version, oldest_client, log_epoch
    from trunkline.meta m;
    if client < oldest_client then
        raise exception 'this schema (version %) no longer serves client protocol %, only % and later',
            schema_version, client, oldest_client
            using errcode = 'TL022', hint = 'update the client: pip install --upgrade trunkline';
    end if;
    client_port := inet_client_port();
    is_standby := pg_is_in_recovery();
    server_version := current_setting('server_version_num')::integer;
end $$;
