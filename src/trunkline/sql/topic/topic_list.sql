-- Every topic by name with its settings and the ids of its partitions in order, or the named one.
-- errors: TL001 TL002 for a name that does not exist
-- grants: producer, consumer, admin
create function trunkline.topic_list(topic text default null)
returns table (
    topic_id integer, incarnation bigint, name text, partitions integer, open_segment_id integer,
    created_at timestamptz, retention_age_s bigint, retention_bytes bigint, segment_bytes bigint,
    segment_age_s bigint, record_bytes_max integer, batch_bytes_max integer, batch_records_max integer,
    key_bytes_max integer, header_count_max integer, header_bytes_max integer, retention_consumed boolean,
    notify_in_commit boolean, loose_commit_order boolean, partition_ids integer[])
language plpgsql stable security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select t.*, array(select p.partition_id from trunkline.topic_partition p
            where p.topic_id = t.topic_id order by p.partition)
        from trunkline.topic t where id is null or t.topic_id = id order by t.name;
end $$;
