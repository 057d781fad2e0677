-- Where a seek leads in one partition: 'start', 'end', 'offset' (at_offset), 'time' (at_time), or 'group' (where another
-- group stands).
-- errors: TL001, TL002 the other group has no cursor there, TL005 an offset outside the log
-- grants: none
create function trunkline.group_target(
    topic_id integer, partition integer, target text, at_offset bigint, at_time timestamptz, like_group_id integer)
returns bigint
language plpgsql volatile
as $$
declare
    log   record;
    found_offset bigint;
begin
    select r."start", r."end" into log from trunkline.log_range(topic_id, partition) r;
    if target = 'start' then
        return log."start";
    elsif target = 'end' then
        return log."end";
    elsif target = 'time' and at_time is not null then
        return trunkline.log_offset_at(topic_id, partition, at_time);
    elsif target = 'offset' and at_offset is not null then
        found_offset := at_offset;
    elsif target = 'group' and like_group_id is not null then
        select l.next_offset into found_offset
        from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
        cross join lateral (select x.next_offset from trunkline.group_ledger x
            where x.cursor_id = c.cursor_id order by x.seq desc limit 1) l
        where c.group_id = like_group_id and p.topic_id = group_target.topic_id and p.partition = group_target.partition;
        if not found then
            raise exception 'that group does not read partition %', partition using errcode = 'TL002';
        end if;
    else
        raise exception 'a group is sought to start, end, an offset, a time or another group''s position'
            using errcode = 'TL001';
    end if;
    if found_offset not between log."start" and log."end" then
        perform trunkline.log_raise_outside(topic_id, partition, found_offset);
    end if;
    return found_offset;
end $$;
