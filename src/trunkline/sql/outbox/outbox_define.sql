-- Makes, or makes again, the procedure through which a transaction's only batch comes from the stage into one segment:
-- segment_<id>_take, the hot path of a commit that publishes. A routine of its own so that its plan is cached; a
-- procedure, because calling one by its name takes half of what calling a function does. Nothing in its text changes.
--
-- It appends the batch to the partition, whose lock the caller took in an earlier statement, so that its snapshot has
-- what the last holder committed. Where the partition has no batch in this segment yet, log_append_part does it.
-- grants: none
create function trunkline.outbox_define(segment_id integer) returns void
language plpgsql volatile
as $define$
begin
    execute replace($procedure$
create or replace procedure trunkline.<segment>_take(stage trunkline.outbox_stage, place integer)
language plpgsql
as $body$
begin
    insert into trunkline.<segment> (first_offset, append_time, batch_id, transaction_id, partition, record_count,
        transaction_ordinal, transaction_count, byte_count, keys, payloads, header_counts, header_names, header_values)
    select tip.first_offset + tip.record_count, greatest(tip.append_time, trunkline.clock_now()),
        trunkline.random_bigint(), stage.transaction_id, place, stage.record_count,
        case when tip.transaction_id = stage.transaction_id then tip.transaction_count else 0 end,
        case when tip.transaction_id = stage.transaction_id then tip.transaction_count else 0 end + stage.record_count,
        pg_column_size(stage.payloads) + coalesce(pg_column_size(stage.keys), 0)
            + coalesce(pg_column_size(stage.header_names), 0) + coalesce(pg_column_size(stage.header_values), 0),
        stage.keys, stage.payloads, stage.header_counts, stage.header_names, stage.header_values
    from (
        select b.first_offset, b.record_count, b.append_time, b.transaction_id, b.transaction_count
        from trunkline.<segment> b where b.partition = place order by b.first_offset desc limit 1) tip
    where tip.record_count > 0;
    if not found then
        perform trunkline.log_append_part(stage.partition_id, stage.expected_partitions, stage.record_count, stage.keys,
            stage.payloads, stage.header_counts, stage.header_names, stage.header_values, null, null, null);
    end if;
end $body$
$procedure$, '<segment>', 'segment_' || segment_id);
    execute format('revoke all on procedure trunkline.%I from public', 'segment_' || segment_id || '_take');
end $define$;
