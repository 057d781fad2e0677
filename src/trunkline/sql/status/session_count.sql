-- How many sessions of this database the caller may look into, and how many it may not: what the latter hold shows
-- in no list. Runs as the caller, so that nobody sees more here than in pg_stat_activity.
-- errors: none
-- grants: admin
create function trunkline.session_count(out visible integer, out hidden integer)
language sql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select count(*) filter (where a.query is distinct from '<insufficient privilege>')::integer,
        count(*) filter (where a.query = '<insufficient privilege>')::integer
    from pg_stat_activity a where a.datname = current_database()
$$;
