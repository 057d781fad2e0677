-- What maintenance has to do for one topic, or for all of them, in the order in which to do it:
-- 'roll' an open segment that is full, 'seal' one that is no longer open, 'drop' one that is released.
-- Each is one call (segment_roll, segment_seal, segment_drop) in a transaction of its own; between seal and drop
-- call retention_release.
-- grants: admin
create function trunkline.retention_due(topic text default null)
returns table (action text, segment_id integer, topic_id integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    only_id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select x.action, x.segment_id, x.topic_id from (
            select case
                    when s.released_at is not null then 'drop'
                    when t.open_segment_id = s.segment_id then 'roll'
                    else 'seal' end as action, s.segment_id, s.topic_id, t.open_segment_id
            from trunkline.segment s left join trunkline.topic t on t.topic_id = s.topic_id
            where (only_id is null or s.topic_id = only_id)
                and (s.released_at is not null or s.sealed_at is null)) x
        where x.action <> 'roll' or trunkline.segment_is_full(x.segment_id)
        order by array_position(array['roll', 'seal', 'drop'], x.action), x.segment_id;
end $$;
