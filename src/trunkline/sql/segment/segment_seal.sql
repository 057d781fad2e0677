-- Seals a segment that is no longer the open one: moves the partitions that have not published since, keeps the
-- last sequences of its producers, and notes what retention wants to know. Nothing is written to it afterwards.
-- Returns false where it was sealed already, or is still the open one.
-- locks: the topic, then each partition that has to move, in ascending order
-- errors: TL002, 55P03
-- grants: producer, admin
create function trunkline.segment_seal(segment_id integer) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    segment record;
    topic   record;
    part    record;
    name    constant text := 'segment_' || segment_id;
    newest  timestamptz;
    has_keys boolean;
begin
    select s.topic_id into segment from trunkline.segment s where s.segment_id = segment_seal.segment_id;
    if not found then
        raise exception 'segment % does not exist', segment_id using errcode = 'TL002';
    end if;
    perform trunkline.topic_lock(segment.topic_id);
    select s.topic_id, s.sealed_at, s.released_at into segment
    from trunkline.segment s where s.segment_id = segment_seal.segment_id;
    select t.topic_id, t.open_segment_id into topic from trunkline.topic t where t.topic_id = segment.topic_id;
    if segment.sealed_at is not null or segment.released_at is not null or topic.open_segment_id = segment_id then
        return false;
    end if;
    for part in select p.partition_id, p.partition from trunkline.topic_partition p
        where p.topic_id = topic.topic_id and segment_id >= (
            select max(sp.segment_id) from trunkline.segment_partition sp where sp.partition_id = p.partition_id)
        order by p.partition_id loop
        perform trunkline.lock_partition(part.partition_id);
        if segment_id >= (select max(sp.segment_id) from trunkline.segment_partition sp
                where sp.partition_id = part.partition_id) then
            perform trunkline.partition_move(part.partition_id, part.partition, topic.open_segment_id);
        end if;
    end loop;
    execute format(
        'update trunkline.producer r
         set last_sequence = x.producer_sequence, last_offset = x.first_offset, last_count = x.record_count,
             seen_at = x.append_time
         from (
             select q.producer_no, b.producer_sequence, b.first_offset, b.record_count, b.append_time
             from trunkline.topic_partition p join trunkline.producer q using (partition_id), lateral (
                 select y.producer_sequence, y.first_offset, y.record_count, y.append_time from trunkline.%I y
                 where y.producer_no = q.producer_no order by y.producer_sequence desc limit 1) b
             where p.topic_id = $1) x
         where r.producer_no = x.producer_no and x.producer_sequence > r.last_sequence', name)
        using topic.topic_id;
    execute format('select exists (select from trunkline.%I b where b.keys is not null)', name) into has_keys;
    execute format(
        'select max(x.append_time) from trunkline.topic_partition p, lateral (
             select b.append_time from trunkline.%I b
             where b.partition = p.partition and b.record_count > 0 order by b.first_offset desc limit 1) x
         where p.topic_id = $1', name) into newest using topic.topic_id;
    update trunkline.segment s
    set sealed_at = trunkline.clock_now(), last_append_time = newest, keyed = has_keys,
        byte_count = pg_total_relation_size(format('trunkline.%I', name)::regclass)
    where s.segment_id = segment_seal.segment_id;
    -- No commit publishes here any more. An upgrade takes a lock for each routine that there is.
    execute format('drop procedure if exists trunkline.%I', name || '_take');
    return true;
end $$;
