-- Deletes a topic, and what groups know of it. Its name is free at once; its tables are left released, for
-- segment_drop. Returns the ids of the segments to drop.
-- locks: the topic and its row, then every partition in ascending order, then the cursors of its groups, then its queues
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.topic_delete(topic text) returns integer[]
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id      constant integer := trunkline.topic_id_of(topic);
    dropped integer[];
    part    record;
begin
    perform trunkline.topic_lock(id);
    -- Groups that are beginning to read it have committed then, and are seen below; later ones find it deleted.
    perform from trunkline.topic t where t.topic_id = id for update;
    for part in select p.partition_id, p.partition from trunkline.topic_partition p
        where p.topic_id = id order by p.partition_id loop
        perform trunkline.lock_partition(part.partition_id);
        perform trunkline.partition_close(part.partition_id, part.partition);
    end loop;
    update trunkline.segment s set released_at = trunkline.clock_now()
    where s.topic_id = id and s.released_at is null;
    select coalesce(array_agg(s.segment_id order by s.segment_id), '{}') into dropped
    from trunkline.segment s where s.topic_id = id;
    perform trunkline.group_forget(array(
        select c.cursor_id from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
        where p.topic_id = id));
    perform trunkline.queue_forget(q.queue_id) from (
        select q.queue_id from trunkline.queue q where q.topic_id = id order by q.queue_id) q;
    delete from trunkline.outbox_pending o using trunkline.topic_partition p
    where p.topic_id = id and o.partition_id = p.partition_id;
    delete from trunkline.topic t where t.topic_id = id;
    return dropped;
end $$;
