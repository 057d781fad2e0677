-- Whether a topic has a partition in which the group has no cursor.
-- grants: none
create function trunkline.group_misses(group_id integer, topic_id integer) returns boolean
language sql volatile
as $$
    select not exists (select from trunkline.topic_partition p where p.topic_id = group_misses.topic_id)
        or exists (
            select from trunkline.topic_partition p
            where p.topic_id = group_misses.topic_id and not exists (
                select from trunkline.group_cursor c
                where c.group_id = group_misses.group_id and c.partition_id = p.partition_id))
$$;
