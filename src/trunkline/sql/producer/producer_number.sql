-- The number under which a producer's batches stand in one partition in one epoch. A hash, so that no table has to be
-- asked for it; the id is random and 128 bits long, so two producers do not meet.
-- grants: none
create function trunkline.producer_number(producer_id uuid, partition_id integer, epoch integer) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.uuid_hash_extended(producer_id, (partition_id::bigint << 32) | epoch) $$;
