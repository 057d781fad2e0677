-- Where a queue stands in each partition. Below the floor everything is done; up to the frontier it was claimed at least
-- once; "end" is the next offset of the log. undone is everything that is not done, also what is not there yet.
-- Stable: where a part is, and what is in its tables, is seen with the same eyes. A part that has just moved has left
-- rows in its old tables that say that nothing is to be had there.
-- errors: 42P01 where a part has moved since, and its old tables are gone: ask again, in another statement
-- grants: none
create function trunkline.queue_positions(queue_id integer)
returns table (
    partition integer, partition_id integer, "start" bigint, floor bigint, frontier bigint, "end" bigint, in_flight bigint,
    waiting bigint, next_due timestamptz, oldest_claim_at timestamptz, expired bigint, table_bytes bigint,
    undone int8multirange)
language plpgsql stable
as $$
declare
    part  record;
    state record;
begin
    for part in
        select p.part_id, p.table_no, t.partition_id, r.partition, r."start", r."end"
        from trunkline.queue q cross join lateral trunkline.log_range(q.topic_id) r
        join trunkline.topic_partition t on t.topic_id = q.topic_id and t.partition = r.partition
        join trunkline.queue_part p on p.queue_id = q.queue_id and p.partition_id = t.partition_id
        where q.queue_id = queue_positions.queue_id order by r.partition
    loop
        execute format('select s.frontier, s.expired, s.next_due from trunkline.claim_%s s
            where s.part_id = $1 order by s.claim_no desc limit 1', part.table_no) into state using part.part_id;
        partition := part.partition;
        partition_id := part.partition_id;
        "start" := part."start";
        "end" := part."end";
        frontier := state.frontier;
        expired := state.expired + greatest(part."start" - 1 - state.frontier, 0);
        select coalesce(min(lower(o.offsets)), state.frontier + 1),
            coalesce(sum(trunkline.offsets_count(o.offsets)) filter (where o.kind = 'c'), 0),
            coalesce(sum(trunkline.offsets_count(o.offsets)) filter (where o.kind = 't'), 0),
            min(o.deadline), min(o.at) filter (where o.kind = 'c')
        into floor, in_flight, waiting, next_due, oldest_claim_at
        from trunkline.queue_open(part.part_id, part.table_no) o;
        undone := int8multirange(int8range(state.frontier + 1, null)) + coalesce((
            select range_agg(r) from trunkline.queue_open(part.part_id, part.table_no) o, unnest(o.offsets) r), '{}');
        table_bytes := pg_relation_size(to_regclass('trunkline.claim_' || part.table_no))
            + pg_relation_size(to_regclass('trunkline.closure_' || part.table_no));
        return next;
    end loop;
end $$;
