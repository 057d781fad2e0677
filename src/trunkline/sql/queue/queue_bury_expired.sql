-- Publishes the records of a segment that queues have not done yet to their dead letter topics, before retention takes
-- them: for queues that ask for it (bury_expired). How many there were. What somebody holds just now is among them.
-- locks: partitions of the dead letter topics, in ascending order for each queue
-- errors: those of log_append
-- grants: none
create function trunkline.queue_bury_expired(segment_id integer) returns bigint
language plpgsql volatile
as $$
declare
    place  record;
    gone   int8multirange;
    piece  record;
    buried bigint := 0;
begin
    for place in
        select q.queue_id, q.dead_letter, q.topic_id, n.partition, w.undone,
            int8multirange(int8range(sp.first_offset, (
                select x.first_offset from trunkline.segment_partition x
                where x.partition_id = sp.partition_id and x.segment_id > sp.segment_id
                order by x.segment_id limit 1))) as held
        from trunkline.segment_partition sp
        join trunkline.topic_partition n on n.partition_id = sp.partition_id
        join trunkline.queue_part p on p.partition_id = sp.partition_id
        join trunkline.queue q on q.queue_id = p.queue_id and q.bury_expired and q.dead_letter is not null
        cross join lateral trunkline.queue_positions(q.queue_id) w
        where sp.segment_id = queue_bury_expired.segment_id and w.partition_id = sp.partition_id
        order by q.queue_id, n.partition
    loop
        gone := place.held * place.undone;
        for piece in select lower(r) as first, upper(r) - lower(r) as count from unnest(gone) r loop
            perform trunkline.queue_bury(place.dead_letter, place.topic_id, place.partition, piece.first, piece.count,
                'retention took it before it was done');
            buried := buried + piece.count;
        end loop;
    end loop;
    return buried;
end $$;
