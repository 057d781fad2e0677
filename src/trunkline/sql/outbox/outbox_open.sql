-- Sees to it that the commit of a transaction appends what it has put into the stage.
-- grants: none
create function trunkline.outbox_open(transaction_id bigint) returns void
language plpgsql volatile
as $$
begin
    if not exists (select from trunkline.outbox_head h where h.transaction_id = outbox_open.transaction_id) then
        insert into trunkline.outbox_head (transaction_id) values (outbox_open.transaction_id);
    end if;
end $$;
