-- How far the maintenance of each topic has come, by name; a last row without one counts what deleted topics left.
-- byte_count is everything that is not released. Since when something is due, null where nothing is:
-- roll_due_since (the open segment is old enough for the next one), moving_since (a segment that is no longer open
-- is not sealed), expired_since (records are older than retention_age_s), released_since (a table is not dropped).
-- bytes_over is what retention could free now because of retention_bytes.
-- errors: none
-- grants: consumer, admin
create function trunkline.retention_describe()
returns table (
    topic text, retention_age_s bigint, retention_bytes bigint, segments integer, segments_moving integer,
    segments_released integer, byte_count bigint, roll_due_since timestamptz, moving_since timestamptz,
    expired_since timestamptz, released_since timestamptz, bytes_over bigint)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    with clock as materialized (select trunkline.clock_now() as now), sized as (
        select s.*, t.name, t.open_segment_id, t.retention_age_s, t.retention_bytes,
            s.segment_id = t.open_segment_id as is_open,
            coalesce(s.byte_count, pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id)), 0) as size,
            s.opened_at + least(t.segment_age_s, case when t.retention_age_s is not null
                then greatest(t.retention_age_s / 8, 1) end) * interval '1 second' as roll_due,
            coalesce(s.last_append_time, s.sealed_at) + t.retention_age_s * interval '1 second' as expires,
            lead(s.opened_at) over (partition by s.topic_id order by s.segment_id) as followed_at
        from trunkline.segment s left join trunkline.topic t using (topic_id))
    select z.name, min(z.retention_age_s), min(z.retention_bytes), count(*)::integer,
        count(*) filter (where z.sealed_at is null and z.released_at is null and not z.is_open)::integer,
        count(*) filter (where z.released_at is not null)::integer,
        coalesce(sum(z.size) filter (where z.released_at is null), 0)::bigint,
        min(z.roll_due) filter (where z.is_open and z.roll_due < c.now),
        min(z.followed_at) filter (where z.sealed_at is null and z.released_at is null and not z.is_open),
        min(z.expires) filter (where z.sealed_at is not null and z.released_at is null and z.expires < c.now),
        min(z.released_at),
        case when sum(z.size) filter (where z.released_at is null) > min(z.retention_bytes)
            then least(sum(z.size) filter (where z.released_at is null) - min(z.retention_bytes),
                sum(z.size) filter (where z.sealed_at is not null and z.released_at is null))::bigint end
    from sized z cross join clock c group by z.name order by z.name nulls last
$$;
