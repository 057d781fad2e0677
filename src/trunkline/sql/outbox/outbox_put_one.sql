-- Publishes one record without headers in the caller's transaction, as nearly every transaction does: what outbox_put
-- does, in one statement. What is unusual it leaves to outbox_put.
-- Returns the transaction's id; behind it, where its limit was seen to be passed, the segment that is open: then the
-- caller should call segment_roll_if_full, in a transaction of its own.
-- Promise, locks, errors: as outbox_put
-- grants: producer
create function trunkline.outbox_put_one(
    topic_id integer, incarnation bigint, expected_partitions integer, partition integer, key bytea, payload bytea)
returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    id         constant bigint := pg_current_xact_id()::text::bigint;
    segment_id bigint;
    put        record;
begin
    -- One statement, and few expressions beside it: each costs a little in every transaction.
    insert into trunkline.outbox_stage (transaction_id, partition_id, expected_partitions, record_count, is_head, keys,
        payloads)
    select id, p.partition_id, outbox_put_one.expected_partitions, 1,
        not exists (select from trunkline.outbox_stage s where s.transaction_id = id),
        case when outbox_put_one.key is not null then array[outbox_put_one.key] end, array[outbox_put_one.payload]
    from trunkline.topic t join trunkline.topic_partition p
        on p.topic_id = t.topic_id and p.partition = outbox_put_one.partition
    where t.topic_id = outbox_put_one.topic_id and t.incarnation = outbox_put_one.incarnation
        and not t.loose_commit_order
        and (outbox_put_one.expected_partitions is null or outbox_put_one.expected_partitions = t.partitions)
        and octet_length(outbox_put_one.payload) <= least(t.record_bytes_max, t.batch_bytes_max)
        and (outbox_put_one.key is null or octet_length(outbox_put_one.key) <= t.key_bytes_max);
    if not found then
        put := trunkline.outbox_put(topic_id, incarnation, expected_partitions, array[partition], array[1],
            case when key is not null then array[key] end, array[payload], null, null, null);
        return array_remove(array[id, case when put.is_full then put.open_segment_id end], null);
    end if;
    -- Looking at files costs more than a small publish: by chance, about 64 times while a segment fills. None fills with
    -- less than 65,536 bytes, so the topic need not be looked at each time.
    if random() * 1024 < octet_length(payload) + 32 then
        select t.open_segment_id into segment_id from trunkline.topic t
        where t.topic_id = outbox_put_one.topic_id
            and random() * t.segment_bytes < greatest(octet_length(outbox_put_one.payload) + 32, 1024)::bigint * 64;
        if trunkline.outbox_is_due(segment_id::integer) then
            return array[id, segment_id];
        end if;
    end if;
    return array[id];
end $$;
