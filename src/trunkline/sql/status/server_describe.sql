-- What an operator wants to know of the server: its version, whether it is a standby, whether it has lz4, and the
-- settings that decide whether a commit survives a crash, as this session has them. segments: how many the
-- database has, of segments_max. server_time is what ages are to be counted from.
-- errors: none
-- grants: producer, consumer, admin
create function trunkline.server_describe(
    out server_version text, out server_version_num integer, out is_standby boolean, out has_lz4 boolean,
    out fsync boolean, out synchronous_commit text, out full_page_writes boolean, out data_checksums boolean,
    out synchronous_standby_names text, out segments integer, out segments_max integer,
    out server_time timestamptz)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
        exists (select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)),
        current_setting('fsync')::boolean, current_setting('synchronous_commit'),
        current_setting('full_page_writes')::boolean, current_setting('data_checksums')::boolean,
        current_setting('synchronous_standby_names'), (select count(*)::integer from trunkline.segment), 2000,
        trunkline.clock_now()
$$;
