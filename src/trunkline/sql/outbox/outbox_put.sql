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
    topic    record;
    part     integer;
    a        integer := 1;    -- the partition's records are elements a to z
    z        integer;
    header_a integer := 1;
    header_z integer;
begin
    select t.open_segment_id, t.loose_commit_order,
        -- Looking at files costs more than a small publish: by chance, about 64 times while a segment fills.
        random() * t.segment_bytes < pg_column_size(outbox_put.payloads)::bigint * 64 as is_due
    into topic
    from trunkline.topic t where t.topic_id = outbox_put.topic_id and t.incarnation = outbox_put.incarnation;
    if not found then
        raise exception 'topic % is not in this database: it was deleted, or the connection leads to another one', topic_id
            using errcode = 'TL002', hint = 'publish on a connection to the database of the client';
    end if;
    transaction_id := pg_current_xact_id()::text::bigint;
    open_segment_id := topic.open_segment_id;
    perform trunkline.log_check_parts(partitions, counts, keys, payloads, header_counts);
    for i in 1 .. cardinality(partitions) loop
        z := a + counts[i] - 1;
        header_z := header_a - 1 + coalesce((select sum(n) from unnest(header_counts[a:z]) n), 0);
        part := trunkline.outbox_check(topic_id, expected_partitions, partitions[i], counts[i], keys[a:z],
            payloads[a:z], header_counts[a:z], header_names[header_a:header_z], header_values[header_a:header_z]);
        perform trunkline.outbox_keep(topic.loose_commit_order, transaction_id, part, expected_partitions, counts[i],
            keys[a:z], payloads[a:z], header_counts[a:z], header_names[header_a:header_z],
            header_values[header_a:header_z]);
        a := z + 1;
        header_a := header_z + 1;
    end loop;
    if topic.loose_commit_order and current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    is_full := topic.is_due and trunkline.outbox_is_due(open_segment_id);
end $$;
