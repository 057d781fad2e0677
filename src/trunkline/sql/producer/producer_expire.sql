-- Forgets producers that have not published for a day, at most `limit_count` in one call. Returns how many rows
-- it looked at; call it again while that is limit_count.
-- A producer's newest batch may stand in a segment that is not sealed yet, so those are asked too.
-- locks: the partitions concerned, in ascending order
-- grants: admin
create function trunkline.producer_expire(limit_count integer default 100) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    before  constant timestamptz := trunkline.clock_now() - interval '1 day';
    stale   record;
    seen    timestamptz;
    looked  integer := 0;
    open_id integer;
begin
    for stale in select r.producer_no, r.partition_id, p.topic_id
        from trunkline.producer r join trunkline.topic_partition p using (partition_id)
        where r.seen_at < before order by r.partition_id limit limit_count loop
        perform trunkline.lock_partition(stale.partition_id);
        looked := looked + 1;
        seen := null;
        for open_id in select s.segment_id from trunkline.segment s
            where s.topic_id = stale.topic_id and s.sealed_at is null and s.released_at is null
            order by s.segment_id desc loop
            execute format('select b.append_time from trunkline.%I b where b.producer_no = $1
                order by b.producer_sequence desc limit 1', 'segment_' || open_id) into seen using stale.producer_no;
            exit when seen is not null;
        end loop;
        if seen >= before then
            update trunkline.producer r set seen_at = seen where r.producer_no = stale.producer_no;
        else
            delete from trunkline.producer r where r.producer_no = stale.producer_no and r.seen_at < before;
        end if;
    end loop;
    return looked;
end $$;
