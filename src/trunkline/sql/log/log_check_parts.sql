-- Refuses records of several partitions whose counts and arrays do not fit together.
-- errors: TL001
-- grants: none
create function trunkline.log_check_parts(
    partitions integer[], counts integer[], keys bytea[], payloads bytea[], header_counts integer[]) returns void
language plpgsql immutable
as $$
begin
    if coalesce(cardinality(partitions), 0) = 0 or coalesce(cardinality(counts), 0) <> cardinality(partitions)
        or (select sum(n) from unnest(counts) n) is distinct from cardinality(payloads)
        or exists (select from unnest(counts) n where n is null or n < 1)
        or cardinality(keys) <> cardinality(payloads) or cardinality(header_counts) <> cardinality(payloads) then
        raise exception 'partitions, counts, sequences and the arrays of records do not fit together'
            using errcode = 'TL001', hint = 'a count for each partition, adding up to the number of payloads';
    elsif exists (select from generate_series(2, cardinality(partitions)) i
            where (partitions[i] > partitions[i - 1]) is not true) then
        raise exception 'partitions must be given once each, in ascending order' using errcode = 'TL001';
    end if;
end $$;
