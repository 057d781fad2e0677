-- The number under which a producer's batches stand in one partition in one epoch: 64 bits of hash, so that no table
-- has to be asked for it, and so many that two random ids do not meet. Where they did, registering the second fails.
-- grants: none
create function trunkline.producer_number(producer_id uuid, partition_id integer, epoch integer) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.uuid_hash_extended(producer_id, (partition_id::bigint << 32) | epoch) $$;
