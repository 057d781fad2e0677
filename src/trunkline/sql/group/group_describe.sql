-- A group's partitions by topic: its cursor, the log's range, who holds the partition (null: nobody) in which epoch,
-- whether the holder is alive, and when and how the newest row of the ledger came (its kind). lag = "end" - cursor.
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.group_describe(name text)
returns table (
    topic text, partition integer, cursor bigint, "start" bigint, "end" bigint, epoch integer, member_id integer,
    member_name text, is_alive boolean, moved_at timestamptz, kind text)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    return query select p.* from trunkline.group_positions(trunkline.group_id_of(name)) p;
end $$;
