-- Notes that a handler has given records of one key up, in the caller's transaction. It is for people: see
-- failure_describe. Rows of the same partition that are older than 30 days go.
-- locks: those of parked_begin, which the caller has taken
-- errors: 23503 where the cursor is gone
-- grants: consumer
create function trunkline.failure_add(
    cursor_id integer, first_offset bigint, record_count integer, key bytea, group_key bytea, attempts integer,
    reason text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    now constant timestamptz := trunkline.clock_now();
begin
    delete from trunkline.group_failure f
    where f.cursor_id = failure_add.cursor_id and f.failed_at < now - interval '30 days';
    insert into trunkline.group_failure (cursor_id, first_offset, record_count, key, group_key, attempts, reason,
        failed_at)
    values (failure_add.cursor_id, failure_add.first_offset, failure_add.record_count, failure_add.key,
        failure_add.group_key, failure_add.attempts, failure_add.reason, now);
end $$;
