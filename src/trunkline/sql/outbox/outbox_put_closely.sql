-- Publishes what outbox_put does not take for plain: several records or partitions, headers, what may be over a limit or
-- wrong, and topics with loose_commit_order.
-- errors: TL001 TL002 TL004 TL012
-- grants: none
create function trunkline.outbox_put_closely(
    transaction_id bigint, is_loose boolean, topic_id integer, expected_partitions integer, partitions integer[],
    counts integer[], keys bytea[], payloads bytea[], header_counts integer[], header_names text[],
    header_values bytea[]) returns void
language plpgsql volatile
as $$
declare
    part     integer;
    a        integer := 1;    -- the partition's records are elements a to z
    z        integer;
    header_a integer := 1;
    header_z integer;
begin
    perform trunkline.log_check_parts(partitions, counts, keys, payloads, header_counts);
    for i in 1 .. cardinality(partitions) loop
        z := a + counts[i] - 1;
        header_z := header_a - 1 + coalesce((select sum(n) from unnest(header_counts[a:z]) n), 0);
        part := trunkline.outbox_check(topic_id, expected_partitions, partitions[i], counts[i], keys[a:z],
            payloads[a:z], header_counts[a:z], header_names[header_a:header_z], header_values[header_a:header_z]);
        perform trunkline.outbox_keep(is_loose, transaction_id, part, expected_partitions, counts[i], keys[a:z],
            payloads[a:z], header_counts[a:z], header_names[header_a:header_z], header_values[header_a:header_z]);
        a := z + 1;
        header_a := header_z + 1;
    end loop;
    if is_loose and current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;
