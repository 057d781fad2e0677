-- Every group by name, with the topics it reads, how many living members it has, and how far it is behind: the sum of
-- end - cursor over its partitions, where it is not beyond the end. A subtraction a partition, never a scan.
-- errors: none
-- grants: consumer, admin
create function trunkline.group_list()
returns table (name text, topics text[], members integer, partitions integer, lag bigint, created_at timestamptz)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
    select g.name, coalesce(array_agg(distinct d.topic) filter (where d.topic is not null), '{}'),
        (select count(*) filter (where trunkline.member_is_alive(m.member_id))::integer
            from trunkline.group_member m where m.group_id = g.group_id),
        count(d.partition)::integer, coalesce(sum(greatest(d."end" - d.cursor, 0)), 0)::bigint, g.created_at
    from trunkline.reader_group g left join lateral trunkline.group_positions(g.group_id) d on true
    group by g.group_id order by g.name
$$;
