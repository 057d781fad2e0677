-- In which tables the parts of a queue are now: whose claim_<table_no>_step to call. A hint: a part may move at any time.
-- grants: consumer
create function trunkline.queue_tables(queue_id integer) returns table (part_id integer, table_no integer)
language sql stable security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select p.part_id, p.table_no from trunkline.queue_part p
    where p.queue_id = queue_tables.queue_id order by p.part_id
$$;
