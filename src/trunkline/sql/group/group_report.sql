-- Notes how far a reader has come that keeps its place itself: a Spark query, in its checkpoint. Makes the group and its
-- cursors where they are missing, so that it is seen beside the others, and retention by consumption waits for it. The
-- newest report counts, also one that goes back.
-- locks: the group where something is missing, then the cursors, in ascending order
-- errors: TL001 TL002, TL016 where consumers read with that group, 40001, 55P03
-- grants: consumer
create function trunkline.group_report(
    name text, topic_ids integer[], partitions integer[], next_offsets bigint[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    id      integer;
    cursors integer[];
begin
    if (cardinality(partitions) = cardinality(topic_ids) and cardinality(next_offsets) = cardinality(topic_ids)
        and 1 <= all (next_offsets)) is not true then
        raise exception 'topics, partitions and offsets must be as many, and offsets at least 1' using errcode = 'TL001';
    end if;
    perform trunkline.group_check_name(name);
    select g.group_id into id from trunkline.reader_group g where g.name = group_report.name;
    if id is null then
        insert into trunkline.reader_group as g (incarnation, name, created_at)
        values (trunkline.random_bigint(), group_report.name, trunkline.clock_now())
        on conflict on constraint reader_group_name_key do nothing;
        select g.group_id into strict id from trunkline.reader_group g where g.name = group_report.name;
    end if;
    perform trunkline.group_begin(id, t.topic_id) from (
        select distinct u.topic_id from unnest(topic_ids, partitions) u(topic_id, partition)
        where not exists (select from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
            where c.group_id = id and p.topic_id = u.topic_id and p.partition = u.partition)) t;
    cursors := array(
        select c.cursor_id from unnest(topic_ids, partitions) u(topic_id, partition)
        join trunkline.topic_partition p on p.topic_id = u.topic_id and p.partition = u.partition
        join trunkline.group_cursor c on c.group_id = id and c.partition_id = p.partition_id);
    if trunkline.lock_cursors(cursors) <> cardinality(topic_ids) then
        raise exception 'a partition is named twice, or does not exist' using errcode = 'TL001';
    end if;
    if exists (select from trunkline.group_member m where m.group_id = id and trunkline.member_is_alive(m.member_id)) then
        raise exception 'group % has living members, which move it themselves', name using errcode = 'TL016',
            hint = 'give the query another groupId, or stop the consumers';
    end if;
    insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
    select c.cursor_id, n.seq + 1, n.epoch, u.next_offset, null, 'c', trunkline.clock_now()
    from unnest(topic_ids, partitions, next_offsets) u(topic_id, partition, next_offset)
    join trunkline.topic_partition p on p.topic_id = u.topic_id and p.partition = u.partition
    join trunkline.group_cursor c on c.group_id = id and c.partition_id = p.partition_id
    cross join lateral (
        select l.seq, l.epoch, l.next_offset from trunkline.group_ledger l
        where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n
    where n.next_offset <> u.next_offset;
exception when unique_violation then
    perform trunkline.group_raise_moved();
end $$;
