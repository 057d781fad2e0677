-- lock_list with what the caller may know of each session. Runs as the caller, so that nobody sees more here than in
-- pg_stat_activity. transaction_since is when the session's transaction began; its lock is not older than that.
-- errors: none
-- grants: admin
create function trunkline.lock_holder_list()
returns table (
    topic text, partition integer, pid integer, granted boolean, waiting_since timestamptz, user_name text,
    application text, state text, transaction_since timestamptz, query_start timestamptz, group_name text)
language sql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select k.topic, k.partition, k.pid, k.granted, k.waiting_since, a.usename::text, a.application_name, a.state,
        a.xact_start, a.query_start, k.group_name
    from trunkline.lock_list() k left join pg_stat_activity a on a.pid = k.pid
    order by k.topic, k.partition, k.group_name nulls first, k.granted desc, k.waiting_since
$$;
