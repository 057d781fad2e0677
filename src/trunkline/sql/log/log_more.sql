-- Of the given partitions (by their ids), those that have records at or after the given offsets. One index step a
-- partition; writes nothing. What has been deleted is left out.
-- Where records wait for their place after a commit (loose_commit_order), it gives it to them, and names all partitions:
-- they are there once this call has committed.
-- errors: TL001
-- grants: consumer
create function trunkline.log_more(partition_ids integer[], next_offsets bigint[])
returns table (partition_id integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    place record;
begin
    if (cardinality(partition_ids) = cardinality(next_offsets)) is not true then
        raise exception 'partitions and offsets must be as many' using errcode = 'TL001';
    end if;
    if exists (select from trunkline.outbox_pending o where o.partition_id = any (partition_ids))
        and not pg_is_in_recovery() then
        if trunkline.outbox_sequence(partition_ids, may_wait => false) > 0 then
            return query select unnest(partition_ids);
            return;
        end if;
    end if;
    for place in
        select last.segment_id, array_agg(p.partition_id) as ids, array_agg(p.partition) as partitions,
            array_agg(last.first_offset) as floors, array_agg(u.next_offset) as asked
        from unnest(partition_ids, next_offsets) u(partition_id, next_offset)
        join trunkline.topic_partition p on p.partition_id = u.partition_id, lateral (
            select sp.segment_id, sp.first_offset from trunkline.segment_partition sp
            where sp.partition_id = p.partition_id order by sp.segment_id desc limit 1) last
        group by last.segment_id
    loop
        return query execute format(
            'select u.id from unnest($1, $2, $3, $4) u(id, p, f, n)
             where u.n < u.f or u.n < (
                 select b.first_offset + b.record_count from trunkline.%I b
                 where b.partition = u.p order by b.first_offset desc limit 1)', 'segment_' || place.segment_id)
            using place.ids, place.partitions, place.floors, place.asked;
    end loop;
exception when undefined_table then
    -- A topic was deleted meanwhile: the next call does not meet it any more.
    return;
end $$;
