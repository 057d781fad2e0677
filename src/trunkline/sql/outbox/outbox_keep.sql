-- Puts checked records of one partition down: in the stage, from which the transaction's own commit takes them, or, with
-- is_loose, where they wait after it for outbox_sequence.
-- grants: none
create function trunkline.outbox_keep(
    is_loose boolean, transaction_id bigint, partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[]) returns void
language plpgsql volatile
as $$
begin
    if is_loose then
        insert into trunkline.outbox_pending (transaction_id, partition_id, expected_partitions, record_count, keys,
            payloads, header_counts, header_names, header_values)
        values (outbox_keep.transaction_id, outbox_keep.partition_id, outbox_keep.expected_partitions,
            outbox_keep.record_count, outbox_keep.keys, outbox_keep.payloads, outbox_keep.header_counts,
            outbox_keep.header_names, outbox_keep.header_values);
    else
        insert into trunkline.outbox_stage (transaction_id, partition_id, expected_partitions, record_count, is_head,
            keys, payloads, header_counts, header_names, header_values)
        values (outbox_keep.transaction_id, outbox_keep.partition_id, outbox_keep.expected_partitions,
            outbox_keep.record_count, not exists (
                select from trunkline.outbox_stage s where s.transaction_id = outbox_keep.transaction_id),
            outbox_keep.keys, outbox_keep.payloads, outbox_keep.header_counts,
            outbox_keep.header_names, outbox_keep.header_values);
    end if;
end $$;
