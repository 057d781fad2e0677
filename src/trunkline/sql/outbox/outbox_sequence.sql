-- Gives their place to records that transactions have committed to topics with loose_commit_order: of these partitions
-- (by their ids), or of all that have any. They are appended by the commit of this call's own transaction, as if that
-- had published them; all records of one transaction together, transactions in the order in which they first published.
-- With may_wait false, partitions that somebody is writing to are left for the next call.
-- Returns how many records there were. Where there are none it writes nothing.
-- locks: each partition, in ascending order, until the transaction ends
-- errors: at the commit those of log_append
-- grants: producer, consumer
create function trunkline.outbox_sequence(partition_ids integer[] default null, may_wait boolean default true)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    part  integer;
    moved bigint := 0;
    taken bigint;
begin
    if partition_ids is null then
        -- Of topics that were deleted while a transaction had published to them.
        delete from trunkline.outbox_pending o
        where not exists (select from trunkline.topic_partition p where p.partition_id = o.partition_id);
    end if;
    for part in
        select p.partition_id from trunkline.topic_partition p
        where (partition_ids is null or p.partition_id = any (partition_ids))
            and exists (select from trunkline.outbox_pending o where o.partition_id = p.partition_id)
        order by 1
    loop
        if may_wait then
            perform trunkline.lock_partition(part);
        elsif not pg_try_advisory_xact_lock(trunkline.lock_class(), part) then
            continue;
        end if;
        -- In a later statement than the lock: what an earlier call has taken is gone.
        with visible as (
            select o.pending_id, min(o.pending_id) over (partition by o.transaction_id) as first_id
            from trunkline.outbox_pending o where o.partition_id = part),
        chosen as (
            -- About so many at a time, and no part of a transaction.
            select v.pending_id, v.first_id from visible v where v.first_id <= coalesce(
                (select w.first_id from visible w order by w.first_id, w.pending_id offset 9999 limit 1), v.first_id)),
        gone as (
            delete from trunkline.outbox_pending o using chosen c
            where o.partition_id = part and o.pending_id = c.pending_id
            returning c.first_id, o.*),
        staged as (
            insert into trunkline.outbox_stage (transaction_id, partition_id, expected_partitions, record_count,
                is_head, keys, payloads, header_counts, header_names, header_values)
            select pg_current_xact_id()::text::bigint, part, g.expected_partitions, g.record_count,
                row_number() over (order by g.first_id, g.pending_id) = 1 and not exists (
                    select from trunkline.outbox_stage s where s.transaction_id = pg_current_xact_id()::text::bigint),
                g.keys, g.payloads, g.header_counts, g.header_names, g.header_values
            from gone g order by g.first_id, g.pending_id
            returning record_count)
        select coalesce(sum(s.record_count), 0) into taken from staged s;
        moved := moved + taken;
    end loop;
    return moved;
end $$;
