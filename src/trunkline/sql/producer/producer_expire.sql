-- Forgets producers that have not published for a day, at most `limit_count` in one call. Returns how many rows
-- it looked at; call it again while that is limit_count.
-- A producer that has a batch in a segment that is not sealed yet is kept: there its batches alone prove its sequence,
-- and whether a newer epoch fences it off must be known as long.
-- locks: the partitions concerned, in ascending order
-- grants: admin
create function trunkline.producer_expire(limit_count integer default 100) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    before  constant timestamptz := trunkline.clock_now() - interval '1 day';
    stale   record;
    is_kept boolean;
    looked  integer := 0;
    open_id integer;
begin
    for stale in select r.producer_no, r.partition_id, p.topic_id
        from trunkline.producer r join trunkline.topic_partition p using (partition_id)
        where r.seen_at < before order by r.partition_id limit limit_count loop
        perform trunkline.lock_partition(stale.partition_id);
        looked := looked + 1;
        is_kept := false;
        for open_id in select s.segment_id from trunkline.segment s
            where s.topic_id = stale.topic_id and s.sealed_at is null and s.released_at is null
            order by s.segment_id desc loop
            execute format('select exists (select from trunkline.%I b where b.producer_no = $1)', 'segment_' || open_id)
                into is_kept using stale.producer_no;
            exit when is_kept;
        end loop;
        if is_kept then
            update trunkline.producer r set seen_at = trunkline.clock_now() where r.producer_no = stale.producer_no;
        else
            delete from trunkline.producer r where r.producer_no = stale.producer_no and r.seen_at < before;
        end if;
    end loop;
    return looked;
end $$;
