-- Finds out what a producer's sequence means in a partition. In the log already: first_offset is where. The next
-- one: null (a producer that is not known is registered with its first sequence).
-- Asks every segment that is not sealed, and what sealed ones left behind.
-- locks: none; the caller holds the partition's lock
-- errors: TL001 the same sequence with another number of records; TL007 an older epoch than one seen; TL008 a gap,
--     or too old to be proven; TL009 a sequence after the first of a producer that is not known
-- grants: none
create function trunkline.producer_resolve(
    partition_id integer, segment_id integer, producer_id uuid, epoch integer, sequence integer,
    record_count integer, out first_offset bigint)
language plpgsql volatile
as $$
declare
    known       record;
    found_count integer;
    known_last  integer;
    newest      integer;
    open_id     integer;
begin
    -- One statement for both: between two, a segment could be sealed and be missed by either.
    select r.producer_no, r.epoch, r.last_sequence, r.last_offset, r.last_count, array(
        select s.segment_id from trunkline.segment s
        where s.topic_id = p.topic_id and s.segment_id >= r.first_segment_id and s.sealed_at is null
        order by s.segment_id desc) as open_segments
    into known
    from trunkline.producer r join trunkline.topic_partition p on p.partition_id = r.partition_id
    where r.partition_id = producer_resolve.partition_id and r.producer_id = producer_resolve.producer_id
    order by r.epoch desc limit 1;
    if known.epoch > producer_resolve.epoch then
        raise exception 'producer % has published in epoch %, after epoch %', producer_id, known.epoch, epoch
            using errcode = 'TL007', hint = 'another client took over this producer id; connect anew';
    elsif known.epoch is distinct from producer_resolve.epoch then
        if sequence <> 1 then
            raise exception 'producer % in epoch % is not known here, and % is not its first sequence',
                producer_id, epoch, sequence using errcode = 'TL009',
                hint = 'producers are forgotten a day after their last publish; start a new epoch at sequence 1';
        end if;
        insert into trunkline.producer (producer_no, partition_id, producer_id, epoch, first_segment_id, seen_at)
        values (trunkline.producer_number(producer_id, partition_id, epoch), producer_resolve.partition_id,
            producer_resolve.producer_id, producer_resolve.epoch, producer_resolve.segment_id, trunkline.clock_now());
        return;
    end if;

    known_last := known.last_sequence;
    if sequence = known.last_sequence then
        first_offset := known.last_offset;
        found_count := known.last_count;
    end if;
    foreach open_id in array known.open_segments loop
        exit when first_offset is not null;
        execute format(
            'select (select b.producer_sequence from trunkline.%1$I b where b.producer_no = $1
                     order by b.producer_sequence desc limit 1),
                    x.first_offset, x.record_count
             from (values (1)) one left join lateral (
                 select b.first_offset, b.record_count from trunkline.%1$I b
                 where b.producer_no = $1 and b.producer_sequence = $2) x on true', 'segment_' || open_id)
            into newest, first_offset, found_count using known.producer_no, sequence;
        known_last := greatest(known_last, newest);
    end loop;
    if first_offset is null and sequence - 1 <> known_last then
        raise exception 'sequence % of producer % cannot follow %', sequence, producer_id, known_last
            using errcode = 'TL008',
            hint = case when sequence > known_last then 'a batch between them was lost'
                else 'it is too old to tell whether it was written' end;
    elsif first_offset is not null and found_count <> record_count then
        raise exception 'sequence % of producer % was written with % records, and comes again with %',
            sequence, producer_id, found_count, record_count using errcode = 'TL001',
            hint = 'a retry must repeat the batch as it was';
    end if;
end $$;
