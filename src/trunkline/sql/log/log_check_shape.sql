-- Refuses arguments of an append that do not fit together.
-- errors: TL001
-- grants: none
create function trunkline.log_check_shape(
    record_count integer, keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer) returns void
language plpgsql immutable
as $$
declare
    fault text;
begin
    if coalesce(cardinality(payloads), 0) = 0 or array_ndims(payloads) <> 1 or array_lower(payloads, 1) <> 1 then
        fault := 'payloads must be a one-dimensional array of at least one element';
    elsif array_position(payloads, null) is not null then
        fault := format('payload %s is null', array_position(payloads, null));
    elsif record_count is distinct from cardinality(payloads) then
        fault := format('the count says %s records, payloads hold %s', coalesce(record_count::text, 'null'),
            cardinality(payloads));
    elsif cardinality(keys) <> cardinality(payloads) or array_ndims(keys) <> 1 or array_lower(keys, 1) <> 1 then
        fault := 'keys must be null or as many as payloads';
    elsif producer_id is not null and (producer_epoch >= 0 and sequence > 0) is not true then
        fault := 'a producer needs an epoch of at least 0 and a sequence of at least 1';
    elsif header_counts is null and (header_names is not null or header_values is not null) then
        fault := 'header names and values need header_counts';
    elsif header_counts is not null
        and trunkline.headers_fit(record_count, header_counts, header_names, header_values, 2147483647, 2147483647)
            is not true then
        fault := 'header_counts must name every record, and add up to the number of header names and values';
    end if;
    if fault is not null then
        raise exception '%', fault using errcode = 'TL001', hint = 'nothing was written; log_append says what fits';
    end if;
end $$;
