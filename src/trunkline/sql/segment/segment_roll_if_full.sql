-- What a client calls after a publish that saw the segment's limit passed: segment_roll without force, so that a
-- producer cannot make segments at will.
-- locks, errors: as segment_roll
-- grants: producer, admin
create function trunkline.segment_roll_if_full(segment_id integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    return trunkline.segment_roll(segment_id, false);
end $$;
