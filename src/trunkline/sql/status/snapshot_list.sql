-- Who keeps old row versions alive in this database, oldest first, at most max_rows: sessions with a snapshot,
-- prepared transactions, replication slots. transactions_behind counts the transactions begun since. Runs as the
-- caller, so that nobody sees more here than in pg_stat_activity; the caller's own session is left out.
-- errors: none
-- grants: admin
create function trunkline.snapshot_list(max_rows integer default 20)
returns table (
    holder text, name text, pid integer, user_name text, application text, state text, since timestamptz,
    query_start timestamptz, transactions_behind bigint)
language sql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select x.* from (
        select 'session', null::text, a.pid, a.usename::text, a.application_name, a.state, a.xact_start,
            a.query_start, age(coalesce(a.backend_xmin, a.backend_xid))::bigint
        from pg_stat_activity a
        where (a.datname = current_database() or a.backend_type = 'walsender') and a.pid <> pg_backend_pid()
            and a.backend_type <> 'autovacuum worker' and coalesce(a.backend_xmin, a.backend_xid) is not null
        union all
        select 'prepared', p.gid, null, p.owner::text, null, null, p.prepared, null, age(p.transaction)::bigint
        from pg_prepared_xacts p where p.database = current_database()
        union all
        select 'slot', s.slot_name::text, s.active_pid, null, null, null, null, null,
            age(coalesce(s.xmin, s.catalog_xmin))::bigint
        from pg_replication_slots s where coalesce(s.xmin, s.catalog_xmin) is not null
    ) x (holder, name, pid, user_name, application, state, since, query_start, transactions_behind)
    order by x.transactions_behind desc, x.since nulls last limit max_rows
$$;
