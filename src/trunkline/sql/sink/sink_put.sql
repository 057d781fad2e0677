-- Puts one batch into a stage, for a partition of a topic; ordinal is its place in the stage, and where that is taken
-- nothing is written, also where the topic has got a new segment since. Nobody reads it before sink_commit publishes it. Arrays as in log_append, for one partition.
-- The commit need not be flushed: that of sink_commit, which comes later in the same WAL, flushes it too, and counts
-- what is there. A transaction that has written something else before keeps the flush that it asked for.
-- locks: the rows of the stage
-- errors: TL001 TL002 TL004 TL012, TL019 a stage of a batch that is being published, 40001 where a segment was dropped meanwhile
-- grants: producer
create function trunkline.sink_put(
    stage_no integer, ordinal bigint, topic_id integer, expected_partitions integer, partition integer,
    record_count integer, keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    has_written constant boolean := pg_current_xact_id_if_assigned() is not null;
    place    record;
    other    record;
    is_there boolean;
begin
    select t.*, p.partition_id into place
    from trunkline.topic t join trunkline.topic_partition p on p.topic_id = t.topic_id
    where t.topic_id = sink_put.topic_id and p.partition = sink_put.partition;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    elsif (stage_no > 0 and ordinal > 0) is not true then
        raise exception 'a stage and the place in it are at least 1' using errcode = 'TL001';
    end if;
    perform trunkline.log_check_shape(record_count, keys, payloads, header_counts, header_names, header_values,
        null, null, null);
    if (place.partitions = coalesce(expected_partitions, place.partitions)
        and record_count <= place.batch_records_max
        and (pg_column_size(payloads) <= least(place.record_bytes_max, place.batch_bytes_max)
            or trunkline.bytes_fit(payloads, place.record_bytes_max, place.batch_bytes_max))
        and (keys is null or pg_column_size(keys) <= place.key_bytes_max
            or trunkline.bytes_fit(keys, place.key_bytes_max) is not false)
        and (header_counts is null or trunkline.headers_fit(
            record_count, header_counts, header_names, header_values, place.header_count_max, place.header_bytes_max))
        ) is not true then
        perform trunkline.log_check_limits(place.partition_id, expected_partitions, keys, payloads, header_counts,
            header_names, header_values);
    end if;
    insert into trunkline.sink_stage (stage_no, segment_id, at)
    values (sink_put.stage_no, place.open_segment_id, trunkline.clock_now()) on conflict do nothing;
    -- An attempt whose answer was lost may still be under way, or come when the batch is being published.
    perform from trunkline.sink_stage s where s.stage_no = sink_put.stage_no order by s.segment_id for update;
    for other in select s.segment_id from trunkline.sink_stage s
        where s.stage_no = sink_put.stage_no and s.segment_id <> place.open_segment_id loop
        if other.segment_id = 0 then
            raise exception 'stage % is being published', stage_no using errcode = 'TL019',
                hint = 'nothing was written; this was put before, or comes too late';
        end if;
        execute format('select exists (select from trunkline.%I b where b.partition = -$1 and b.first_offset = $2)',
            'segment_' || other.segment_id) into is_there using stage_no, ordinal;
        if is_there then
            return;
        end if;
    end loop;
    execute format(
        'insert into trunkline.%I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
             transaction_ordinal, transaction_count, byte_count, keys, payloads, header_counts, header_names, header_values)
         values ($1, trunkline.clock_now(), trunkline.random_bigint(), 0, -$2, $3, $4, 0,
             pg_column_size($6) + coalesce(pg_column_size($5), 0) + coalesce(pg_column_size($8), 0)
                 + coalesce(pg_column_size($9), 0),
             $5, $6, $7, $8, $9) on conflict do nothing', 'segment_' || place.open_segment_id)
        using ordinal, stage_no, record_count, partition, keys, payloads, header_counts, header_names, header_values;
    if not has_written then
        perform set_config('synchronous_commit', 'off', true);
    end if;
exception when undefined_table then
    raise exception 'the segment was dropped while a batch was put into it' using errcode = '40001',
        hint = 'try again: the topic has a newer one';
end $$;
