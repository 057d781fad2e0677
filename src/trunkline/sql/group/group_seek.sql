-- Moves a group in a topic, or in one partition of it, to a place that group_target finds; without execute it only
-- says what would be done. Members that hold the partitions lose them: what they have in hand cannot be committed, and
-- they take them again at the new place.
-- locks: the cursors, in ascending order
-- errors: TL001 TL002 TL005, 40001, 55P03
-- grants: admin
create function trunkline.group_seek(
    name text, topic text, only_partition integer, target text, at_offset bigint default null,
    at_time timestamptz default null, like_group text default null, execute boolean default false)
returns table (partition integer, from_offset bigint, to_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id        constant integer := trunkline.group_id_of(name);
    sought_id constant integer := trunkline.topic_id_of(topic);
    other_id  constant integer := case when like_group is not null then trunkline.group_id_of(like_group) end;
    place     record;
    newest    record;
begin
    perform trunkline.log_guard_commit();
    for place in select c.cursor_id, p.partition
        from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
        where c.group_id = id and p.topic_id = sought_id and (only_partition is null or p.partition = only_partition)
        order by c.cursor_id loop
        if execute then
            perform trunkline.lock_cursors(array[place.cursor_id]);
        end if;
        select l.seq, l.epoch, l.next_offset into newest from trunkline.group_ledger l
        where l.cursor_id = place.cursor_id order by l.seq desc limit 1;
        if not found then
            perform trunkline.group_raise_gone(place.cursor_id);
        end if;
        partition := place.partition;
        from_offset := newest.next_offset;
        to_offset := trunkline.group_target(sought_id, place.partition, target, at_offset, at_time, other_id);
        if execute then
            insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
            values (place.cursor_id, newest.seq + 1, newest.epoch + 1, to_offset, null, 's', trunkline.clock_now());
        end if;
        return next;
    end loop;
    if place is null then
        raise exception 'group % does not read %', name,
            topic || coalesce(' partition ' || only_partition, '') using errcode = 'TL002',
            hint = format('see: trunkline group describe %s', name);
    end if;
exception when unique_violation then
    perform trunkline.group_raise_moved();
end $$;
