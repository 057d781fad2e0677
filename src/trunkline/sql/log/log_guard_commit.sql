-- Makes sure that the transaction ends in a flushed commit or not at all.
-- A prepared transaction would keep the partition's lock for ever: Postgres refuses to prepare one that has a
-- LISTEN pending, and the pair leaves nothing behind. An asynchronous commit could be lost after it was
-- acknowledged, so a session that asks for that does not get it for this transaction.
-- grants: none
create function trunkline.log_guard_commit() returns void
language plpgsql volatile
as $$
begin
    if current_setting('max_prepared_transactions') <> '0' then
        listen trunkline_append;
        unlisten trunkline_append;
    end if;
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;
