-- Publishes staged rows of one partition: gives them their offsets, under the partition's lock. A row that lies in the
-- segment where the partition is written stays there, arrays and all; one that lies in an older segment is copied.
-- Returns the segment.
-- locks: none; the caller holds the partition's lock since an earlier statement
-- errors: TL002, TL019
-- grants: none
create function trunkline.sink_publish(partition_id integer, staged trunkline.staged_batch[]) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    open_id constant integer := trunkline.partition_prepare(partition_id);
    tip     constant record := trunkline.partition_tip(partition_id, open_id);
    xid     constant bigint := pg_current_xact_id()::text::bigint;
    time    constant timestamptz := greatest(tip.append_time, trunkline.clock_now());
    before  constant integer := case when tip.transaction_id = xid then tip.transaction_count else 0 end;
    place   record;
    moved   integer;
begin
    for place in
        select x.segment_id, array_agg(x.stage_no) as stage_nos, array_agg(x.ordinal) as ordinals,
            array_agg(x.ahead) as aheads
        from (select s.*, sum(s.record_count) over (order by s.at) - s.record_count as ahead
            from unnest(staged) with ordinality s(stage_no, segment_id, ordinal, partition_id, record_count, at)
            where s.partition_id = sink_publish.partition_id) x
        group by x.segment_id loop
        if place.segment_id = open_id then
            execute format(
                'update trunkline.%I b set partition = $1, first_offset = $2 + s.ahead, append_time = $3,
                     transaction_id = $4, transaction_ordinal = $5 + s.ahead, transaction_count = $5 + s.ahead + b.record_count
                 from unnest($6, $7, $8) s(stage_no, ordinal, ahead)
                 where b.partition = -s.stage_no and b.first_offset = s.ordinal', 'segment_' || open_id)
                using tip.partition, tip.next_offset, time, xid, before, place.stage_nos, place.ordinals, place.aheads;
        else
            execute format(
                'with taken as (
                     delete from trunkline.%1$I b using unnest($6, $7, $8) s(stage_no, ordinal, ahead)
                     where b.partition = -s.stage_no and b.first_offset = s.ordinal returning b.*, s.ahead)
                 insert into trunkline.%2$I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
                     transaction_ordinal, transaction_count, byte_count, keys, payloads, header_counts, header_names,
                     header_values)
                 select $2 + t.ahead, $3, t.batch_id, $4, $1, t.record_count, $5 + t.ahead, $5 + t.ahead + t.record_count,
                     t.byte_count, t.keys, t.payloads, t.header_counts, t.header_names, t.header_values from taken t',
                'segment_' || place.segment_id, 'segment_' || open_id)
                using tip.partition, tip.next_offset, time, xid, before, place.stage_nos, place.ordinals, place.aheads;
        end if;
        get diagnostics moved = row_count;
        if moved <> cardinality(place.ordinals) then
            raise exception 'of % staged batches % are there', cardinality(place.ordinals), moved using errcode = 'TL019',
                hint = 'nothing was published; run the batch again';
        end if;
    end loop;
    perform trunkline.partition_ring(t.topic_id, tip.partition)
    from trunkline.segment s join trunkline.topic t using (topic_id)
    where s.segment_id = open_id and t.notify_in_commit;
    return open_id;
end $$;
