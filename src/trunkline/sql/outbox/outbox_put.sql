-- Publishes records in the caller's transaction: they get their offsets, and become visible, when it commits. Until
-- then nothing is locked that another publisher needs. A savepoint that is rolled back takes its records with it.
-- Arguments are those of log_append. incarnation is the topic's, by which a connection to another database is noticed.
-- Returns the transaction's id, which the batches carry, the segment that is open, and whether its limit was seen to
-- be passed: then the caller should call segment_roll_if_full, in a transaction of its own.
-- Promise: all that a transaction publishes to one partition stands together there, in the order of its calls, and is
-- in the log if and only if it commits. The commit is flushed; PREPARE TRANSACTION is refused.
-- Where the topic has loose_commit_order, the commit locks nothing: outbox_sequence gives the records their place later.
-- locks: at the commit, after what the application has deferred to it: each partition, in ascending order
-- errors: TL001 TL002 TL004 TL012, 25006; at the commit those of log_append, and TL001 where it is to be prepared
-- grants: producer
create function trunkline.outbox_put(
    topic_id integer, incarnation bigint, expected_partitions integer, partitions integer[], counts integer[],
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    out transaction_id bigint, out open_segment_id integer, out is_full boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    topic record;
begin
    -- Few statements and large expressions: each costs a little in every transaction.
    select t.open_segment_id, t.segment_bytes, t.loose_commit_order, p.partition_id,
        (cardinality(outbox_put.partitions) = 1 and outbox_put.counts = array[1] and cardinality(outbox_put.payloads) = 1
            and array_lower(outbox_put.payloads, 1) = 1 and outbox_put.payloads[1] is not null
            and (outbox_put.keys is null
                or (cardinality(outbox_put.keys) = 1 and array_lower(outbox_put.keys, 1) = 1
                    and pg_column_size(outbox_put.keys) <= t.key_bytes_max))
            and outbox_put.header_counts is null and outbox_put.header_names is null
            and outbox_put.header_values is null
            and (outbox_put.expected_partitions is null or outbox_put.expected_partitions = t.partitions)
            and pg_column_size(outbox_put.payloads) <= least(t.record_bytes_max, t.batch_bytes_max)
            and p.partition_id is not null and not t.loose_commit_order) as is_plain,
        -- Looking at files costs more than a small publish: by chance, about 64 times while a segment fills.
        random() * t.segment_bytes < pg_column_size(outbox_put.payloads)::bigint * 64 as is_due,
        pg_current_xact_id()::text::bigint as transaction_id
    into topic
    from trunkline.topic t left join trunkline.topic_partition p
        on p.topic_id = t.topic_id and p.partition = outbox_put.partitions[1]
    where t.topic_id = outbox_put.topic_id and t.incarnation = outbox_put.incarnation;
    if topic.is_plain is true then
        insert into trunkline.outbox_stage (transaction_id, partition_id, expected_partitions, record_count, is_head,
            keys, payloads)
        values (topic.transaction_id, topic.partition_id, outbox_put.expected_partitions, 1,
            not exists (select from trunkline.outbox_stage s where s.transaction_id = topic.transaction_id),
            outbox_put.keys, outbox_put.payloads);
    elsif topic.transaction_id is null then
        raise exception 'topic % is not in this database: it was deleted, or the connection leads to another one', topic_id
            using errcode = 'TL002', hint = 'publish on a connection to the database of the client';
    else
        perform trunkline.outbox_put_closely(topic.transaction_id, topic.loose_commit_order, topic_id,
            expected_partitions, partitions, counts, keys, payloads, header_counts, header_names, header_values);
    end if;
    transaction_id := topic.transaction_id;
    open_segment_id := topic.open_segment_id;
    -- Not where this transaction has partitions already, as after SET CONSTRAINTS: sealing would wait for them, and the
    -- caller for the sealing.
    is_full := topic.is_due and trunkline.segment_is_full(topic.open_segment_id)
        and not trunkline.lock_is_mine();
end $$;
