-- Refuses what is asked of partitions that a member no longer holds in these epochs. Its caller holds their locks since
-- an earlier statement.
-- errors: TL013 (detail: the cursors that are lost)
-- grants: none
create function trunkline.group_check_held(member_id integer, cursor_ids integer[], epochs integer[]) returns void
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    lost integer[];
begin
    select array_agg(c.cursor_id order by c.cursor_id) into lost
    from unnest(cursor_ids, epochs) c(cursor_id, epoch) left join lateral (
        select l.epoch, l.member_id from trunkline.group_ledger l
        where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n on true
    where (n.epoch = c.epoch and n.member_id = group_check_held.member_id) is not true;
    if lost is not null then
        raise exception 'member % no longer holds % of these partitions; nothing was written', member_id, cardinality(lost)
            using errcode = 'TL013', detail = array_to_string(lost, ','),
            hint = 'its records go to whoever holds them now; raise session_timeout_s or handler_timeout_s if it was alive';
    end if;
end $$;
