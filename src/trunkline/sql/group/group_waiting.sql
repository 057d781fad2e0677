-- How long a group lets records wait: for each partition in which it is behind, when the first record that it has not
-- passed was appended; where retention has taken that one, the oldest that is left. A step along an index a partition.
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.group_waiting(name text)
returns table (topic text, partition integer, since timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    behind record;
begin
    for behind in select d.topic, d.partition, greatest(d.cursor, d."start") as first
        from trunkline.group_describe(name) d where d.cursor < d."end" and d."start" < d."end" loop
        begin
            select r.append_time into since from trunkline.log_read(
                trunkline.topic_id_of(behind.topic), behind.partition, behind.first, 1, 1) r;
        exception when sqlstate 'TL002' or sqlstate 'TL005' then
            -- Its topic was deleted, or retention came by, since the group was described.
            continue;
        end;
        topic := behind.topic;
        partition := behind.partition;
        return next;
    end loop;
end $$;
