-- Whether a segment is full, and who publishes may roll it. Not where this transaction has partitions already, as after
-- SET CONSTRAINTS: sealing would wait for them, and the caller for the sealing. Nothing is due where segment_id is null.
-- grants: none
create function trunkline.outbox_is_due(segment_id integer) returns boolean
language sql volatile
as $$ select coalesce(trunkline.segment_is_full(segment_id), false) and not trunkline.lock_is_mine() $$;
