-- Whether a segment has reached the size or the age at which its topic wants the next one.
-- A topic that keeps records for a short time rolls at an eighth of that, or little of it could ever be dropped.
-- grants: none
create function trunkline.segment_is_full(segment_id integer) returns boolean
language sql volatile
as $$
    select pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id)) >= t.segment_bytes
        or trunkline.clock_now() >= s.opened_at
            + least(t.segment_age_s, case when t.retention_age_s is not null then greatest(t.retention_age_s / 8, 1) end)
            * interval '1 second'
    from trunkline.segment s join trunkline.topic t on t.topic_id = s.topic_id
    where s.segment_id = segment_is_full.segment_id
$$;
