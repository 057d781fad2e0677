-- Lets a group read a topic, from its start ('earliest'), its end ('latest'), an offset that lies in every partition, or
-- a time on. Where the group reads the topic already it keeps its place, and partitions that were added since begin at
-- their start. Returns how many cursors were made.
-- locks: the group, then the row of the topic, so that it is not deleted meanwhile
-- errors: TL001 TL002, TL005 an offset outside a partition's log, 55P03
-- grants: consumer, admin
create function trunkline.group_begin(
    group_id integer, topic_id integer, start text default 'earliest', at_offset bigint default null,
    at_time timestamptz default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    part     record;
    is_known boolean;
    new_id   integer;
    made     integer := 0;
begin
    if (start in ('earliest', 'latest') or (start = 'offset' and at_offset is not null)
        or (start = 'time' and at_time is not null)) is not true then
        raise exception 'a group begins at earliest, latest, an offset or a time' using errcode = 'TL001';
    end if;
    perform trunkline.lock_group(group_id);
    perform from trunkline.reader_group g where g.group_id = group_begin.group_id;
    if not found then
        raise exception 'the group was deleted' using errcode = 'TL002', hint = 'create it again';
    end if;
    perform from trunkline.topic t where t.topic_id = group_begin.topic_id for key share;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, null);
    end if;
    is_known := exists (select from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
        where c.group_id = group_begin.group_id and p.topic_id = group_begin.topic_id);
    for part in select p.partition_id, r.partition, r."start" as first, r."end" as next
        from trunkline.log_range(topic_id) r join trunkline.topic_partition p
            on p.topic_id = group_begin.topic_id and p.partition = r.partition
        where not exists (select from trunkline.group_cursor c
            where c.group_id = group_begin.group_id and c.partition_id = p.partition_id)
        order by p.partition_id loop
        if start = 'offset' and not is_known and at_offset not between part.first and part.next then
            perform trunkline.log_raise_outside(topic_id, part.partition, at_offset);
        end if;
        insert into trunkline.group_cursor as c (group_id, partition_id)
        values (group_begin.group_id, part.partition_id) returning c.cursor_id into new_id;
        insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
        values (new_id, 1, 0, case
                when is_known or start = 'earliest' then part.first
                when start = 'latest' then part.next
                when start = 'offset' then at_offset
                else trunkline.log_offset_at(topic_id, part.partition, at_time) end,
            null, 'b', trunkline.clock_now());
        made := made + 1;
    end loop;
    return made;
end $$;
