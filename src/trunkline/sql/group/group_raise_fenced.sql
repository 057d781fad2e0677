-- Says which partitions a member no longer holds, or that a commit would go back.
-- errors: TL013 (detail: the cursors), TL001; always one of them
-- grants: none
create function trunkline.group_raise_fenced(
    member_id integer, cursor_ids integer[], epochs integer[], next_offsets bigint[]) returns void
language plpgsql volatile
as $$
declare
    lost integer[];
begin
    select array_agg(c.cursor_id order by c.cursor_id) into lost
    from unnest(cursor_ids, epochs) c(cursor_id, epoch) left join lateral (
        select l.epoch, l.member_id from trunkline.group_ledger l
        where l.cursor_id = c.cursor_id order by l.seq desc limit 1) n on true
    where (n.epoch = c.epoch and n.member_id = group_raise_fenced.member_id) is not true;
    if lost is not null then
        raise exception 'member % no longer holds % of these partitions; nothing was written', member_id, cardinality(lost)
            using errcode = 'TL013', detail = array_to_string(lost, ','),
            hint = 'its records go to whoever holds them now; raise session_timeout_s or handler_timeout_s if it was alive';
    end if;
    raise exception 'a commit does not take a cursor back, and names it once: %', array_to_string(cursor_ids, ', ')
        using errcode = 'TL001', hint = 'seek to go back';
end $$;
