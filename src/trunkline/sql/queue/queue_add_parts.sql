-- Gives a queue a part in every partition of its topic that has none yet.
-- locks: the queue
-- errors: 55P03
-- grants: none
create function trunkline.queue_add_parts(queue_id integer, start text) returns void
language plpgsql volatile
as $$
declare
    place  record;
    number integer;
    id     integer;
begin
    if not exists (select from trunkline.queue q join trunkline.topic_partition p using (topic_id)
        where q.queue_id = queue_add_parts.queue_id and not exists (
            select from trunkline.queue_part x where x.queue_id = q.queue_id and x.partition_id = p.partition_id)) then
        return;
    end if;
    perform trunkline.lock_queue(queue_id);
    select max(t.table_no) into number from trunkline.queue_table t where t.queue_id = queue_add_parts.queue_id;
    if number is null then
        number := trunkline.queue_table_create(queue_id);
    end if;
    for place in
        select p.partition_id, r."start" as first, r."end" as next
        from trunkline.queue q cross join lateral trunkline.log_range(q.topic_id) r
        join trunkline.topic_partition p on p.topic_id = q.topic_id and p.partition = r.partition
        where q.queue_id = queue_add_parts.queue_id and not exists (
            select from trunkline.queue_part x where x.queue_id = q.queue_id and x.partition_id = p.partition_id)
        order by p.partition_id
    loop
        insert into trunkline.queue_part as x (queue_id, partition_id, table_no)
        values (queue_add_parts.queue_id, place.partition_id, number) returning x.part_id into id;
        execute format('insert into trunkline.claim_%s (claim_no, at, frontier, swept, swept_no, next_due, expired, part_id, kind)
            values (1, $1, $2, ''-infinity'', 0, ''infinity'', 0, $3, ''m'')', number)
        using trunkline.clock_now(), case when start = 'latest' then place.next else place.first end - 1, id;
    end loop;
    perform trunkline.queue_define(t.table_no) from trunkline.queue_table t where t.queue_id = queue_add_parts.queue_id;
end $$;
