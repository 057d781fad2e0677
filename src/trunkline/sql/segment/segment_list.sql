-- The segments of a topic, or of all topics, oldest first: what each holds, its size, and its state
-- (open, moving: a newer one is open and partitions still move there, sealed, released: waiting to be dropped).
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.segment_list(topic text default null)
returns table (
    segment_id integer, topic_name text, state text, opened_at timestamptz, sealed_at timestamptz,
    last_append_time timestamptz, byte_count bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select s.segment_id, t.name, case
                when s.released_at is not null then 'released'
                when s.sealed_at is not null then 'sealed'
                when t.open_segment_id = s.segment_id then 'open'
                else 'moving' end,
            s.opened_at, s.sealed_at, s.last_append_time,
            coalesce(s.byte_count, pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id)))
        from trunkline.segment s left join trunkline.topic t using (topic_id)
        where id is null or s.topic_id = id order by s.segment_id;
end $$;
