-- Takes the lock under which it is decided what becomes of a claim, for the rest of the transaction; read what it
-- protects in a later statement. Two claims may share one: then somebody waits, and nothing is wrong.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_claim(part_id integer, claim_no bigint) returns void
language plpgsql volatile
as $$
begin
    if not trunkline.lock_claim_try(part_id, claim_no) then
        perform trunkline.lock_wait(trunkline.lock_class() + 7, hashint8(claim_no) # hashint4(part_id));
    end if;
end $$;
