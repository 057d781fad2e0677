-- Appends one batch to each of the given partitions of a topic, in the caller's transaction.
-- The records of partitions[i] are the next counts[i] elements of the arrays. keys is null where no record has
-- one; header_counts, header_names and header_values are null together where no record has any, else flat:
-- record n has the next header_counts[n] names and values.
-- With a producer, sequences[i] is that of partitions[i], one higher than its last; a sequence that is in the log
-- already is answered with its first offset, and nothing is written.
-- expected_partitions is the partition count that keys were routed by, or null.
-- Returns the first offset given out in each partition, the segment that is open, and whether its limit was seen to
-- be passed: then the caller should call segment_roll_if_full, in a transaction of its own.
-- Promise: offsets are gapless, committed and ordered; all of it becomes visible at once or not at all; the
-- commit is flushed even where the session has synchronous_commit off; PREPARE TRANSACTION is refused.
-- locks: each partition, in ascending order, until the transaction ends
-- errors: TL001 TL002 TL004 TL007 TL008 TL009 TL012, 40001 (the tip moved after a REPEATABLE READ snapshot), 55P03
-- grants: producer
create function trunkline.log_append(
    topic_id integer, expected_partitions integer, partitions integer[], counts integer[],
    keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequences integer[],
    out first_offsets bigint[], out open_segment_id integer, out is_full boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    part     record;
    appended bigint[];
    a        integer := 1;    -- the partition's records are elements a to z
    z        integer;
    header_a integer := 1;
    header_z integer;
begin
    perform trunkline.log_check_parts(partitions, counts, keys, payloads, header_counts);
    if producer_id is not null and coalesce(cardinality(sequences), 0) <> cardinality(partitions) then
        raise exception 'a producer needs a sequence for each partition' using errcode = 'TL001';
    end if;
    for i in 1 .. cardinality(partitions) loop
        select p.partition_id into part from trunkline.topic_partition p
        where p.topic_id = log_append.topic_id and p.partition = log_append.partitions[i];
        if not found then
            perform trunkline.topic_raise_missing(topic_id, partitions[i]);
        end if;
        z := a + counts[i] - 1;
        header_z := header_a - 1 + coalesce((select sum(n) from unnest(header_counts[a:z]) n), 0);
        appended := trunkline.log_append_part(part.partition_id, expected_partitions, counts[i], keys[a:z],
            payloads[a:z], header_counts[a:z], header_names[header_a:header_z], header_values[header_a:header_z],
            producer_id, producer_epoch, sequences[i]);
        first_offsets[i] := appended[1];
        open_segment_id := appended[2];
        is_full := coalesce(is_full, false) or appended[3] = 1;
        a := z + 1;
        header_a := header_z + 1;
    end loop;
end $$;
