-- Called by the commit of a transaction that has published, in its first turn: among what the application itself has
-- deferred to the commit. Refuses a commit in two phases, and hands on to outbox_commit, whose turn comes when all of
-- that is done: the application's checks may take their time, and no partition waits for them.
-- errors: TL001 where the transaction is to be prepared
-- grants: none
create or replace function trunkline.outbox_begin() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    if current_query() ~* '^\s*prepare\s+transaction' then
        raise exception 'a transaction that has published cannot be prepared: it would lock partitions until it ends'
            using errcode = 'TL001', hint = 'commit it in one phase, or publish in a transaction of its own';
    end if;
    delete from trunkline.outbox_stage s where s.transaction_id = new.transaction_id
        and s.partition_id = new.partition_id and s.ordinal = new.ordinal;
    return null;
end $$;
