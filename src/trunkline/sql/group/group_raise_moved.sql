-- Says that somebody has written to a cursor since the snapshot of this transaction, which cannot see it.
-- errors: 40001, always
-- grants: none
create function trunkline.group_raise_moved() returns void
language plpgsql volatile
as $$
begin
    raise exception 'the cursor was moved after this transaction''s snapshot' using errcode = '40001',
        hint = 'run the transaction again, or commit cursors in READ COMMITTED, which does not meet this';
end $$;
