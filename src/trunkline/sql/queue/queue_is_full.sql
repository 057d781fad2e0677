-- Whether a table of a queue has grown to where its parts should move to new ones: any that has parts, or this one.
-- grants: none
create function trunkline.queue_is_full(queue_id integer, table_no integer default null) returns boolean
language sql volatile
as $$
    select coalesce(bool_or(
        pg_relation_size(to_regclass('trunkline.claim_' || t.table_no))
            + pg_relation_size(to_regclass('trunkline.closure_' || t.table_no)) >= q.table_bytes), false)
    from trunkline.queue q cross join lateral (
        select queue_is_full.table_no where queue_is_full.table_no is not null
        union select p.table_no from trunkline.queue_part p
        where p.queue_id = q.queue_id and queue_is_full.table_no is null) t
    where q.queue_id = queue_is_full.queue_id
$$;
