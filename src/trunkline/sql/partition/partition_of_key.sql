-- The partition of a key: Kafka's murmur2, its sign bit cleared, modulo the partition count. The same in Python.
-- errors: TL001
-- grants: producer, consumer
create function trunkline.partition_of_key(key bytea, partitions integer) returns integer
language plpgsql immutable parallel safe
as $$
declare
    m       constant bigint := 1540483477;
    mask    constant bigint := 4294967295;
    length  constant integer := octet_length(key);
    h       bigint;
    k       bigint;
    i       integer := 0;
begin
    if key is null or partitions is null or partitions < 1 then
        raise exception 'a key and a positive partition count are needed' using errcode = 'TL001';
    end if;
    h := (2538058380 # length) & mask;
    while length - i >= 4 loop
        k := get_byte(key, i) | (get_byte(key, i + 1) << 8) | (get_byte(key, i + 2) << 16)
            | (get_byte(key, i + 3)::bigint << 24);
        k := (k * m) & mask;
        k := k # (k >> 24);
        k := (k * m) & mask;
        h := ((h * m) & mask) # k;
        i := i + 4;
    end loop;
    if i < length then
        if length - i >= 3 then
            h := h # (get_byte(key, i + 2) << 16);
        end if;
        if length - i >= 2 then
            h := h # (get_byte(key, i + 1) << 8);
        end if;
        h := ((h # get_byte(key, i)) * m) & mask;
    end if;
    h := h # (h >> 13);
    h := (h * m) & mask;
    h := h # (h >> 15);
    return ((h & 2147483647) % partitions)::integer;
end $$;
