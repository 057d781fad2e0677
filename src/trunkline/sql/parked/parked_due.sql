-- The parked records of one key whose redrive was asked for, in their order, at most max_records; none where nothing is
-- due in these partitions, which member_id must hold. In the transaction that handles them: until it ends nobody takes
-- the partitions, and nobody else can redrive.
-- locks: the cursors, in ascending order, where something is due
-- errors: TL001, TL013 where a partition was lost (detail: the cursors), 55P03
-- grants: consumer
create function trunkline.parked_due(
    member_id integer, cursor_ids integer[], epochs integer[], max_records integer)
returns table (
    cursor_id integer, key bytea, group_key bytea, attempts integer, record_offset bigint, payload bytea,
    header_names text[], header_values bytea[], append_time timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
    if not exists (
        select from trunkline.group_blocked b where b.cursor_id = any (cursor_ids) and b.due_at is not null) then
        return;
    end if;
    perform trunkline.lock_cursors(cursor_ids);
    perform trunkline.group_check_held(member_id, cursor_ids, epochs);
    return query
        select b.cursor_id, b.key, b.group_key, b.attempts, p.record_offset, p.payload, p.header_names,
            p.header_values, p.append_time
        from (
            select x.* from trunkline.group_blocked x where x.cursor_id = any (cursor_ids) and x.due_at is not null
            order by x.due_at, x.cursor_id, x.key_id limit 1) b
        join trunkline.group_parked p on p.cursor_id = b.cursor_id and p.key_id = b.key_id
        order by p.record_offset limit max_records;
end $$;
