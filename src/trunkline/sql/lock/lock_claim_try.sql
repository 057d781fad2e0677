-- As lock_claim, but never waits: whether the lock was to be had.
-- grants: none
create function trunkline.lock_claim_try(part_id integer, claim_no bigint) returns boolean
language sql volatile
as $$ select pg_try_advisory_xact_lock(trunkline.lock_class() + 7, hashint8(claim_no) # hashint4(part_id)) $$;
