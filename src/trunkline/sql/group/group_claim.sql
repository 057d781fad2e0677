-- Hands out the next records of a partition for at most once, and moves the group's cursor past them first: readers that
-- share the cursor get ranges that never overlap and leave nothing out. Returns [claimed_start, claimed_end), at most
-- max_records and never beyond what is committed; where there is nothing it is empty, and nothing is written.
-- outside: what to do where the cursor is outside the log: 'error', or go on at 'earliest' or 'latest'.
-- locks: the cursor, until the transaction ends
-- errors: TL001 TL002, TL005 outside the log, TL013 where a member holds the partition, 40001, 55P03
-- grants: consumer
create function trunkline.group_claim(
    cursor_id integer, max_records integer, outside text default 'error',
    out claimed_start bigint, out claimed_end bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    part   record;
    log    record;
    newest record;
begin
    if (max_records >= 1 and outside in ('error', 'earliest', 'latest')) is not true then
        raise exception 'max_records must be at least 1, and outside error, earliest or latest' using errcode = 'TL001';
    end if;
    select p.topic_id, p.partition into part
    from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id)
    where c.cursor_id = group_claim.cursor_id;
    if not found then
        perform trunkline.group_raise_gone(cursor_id);
    end if;
    -- Also where nothing is claimed: the lock is held until the transaction ends.
    perform trunkline.log_guard_commit();
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, cursor_id) then
        perform trunkline.lock_wait(trunkline.lock_class() + 2, cursor_id);
    end if;
    -- In later statements than the lock: who waited for it must see what the one before has claimed.
    select l.seq, l.next_offset, l.epoch, l.member_id into newest from trunkline.group_ledger l
    where l.cursor_id = group_claim.cursor_id order by l.seq desc limit 1;
    if not found then
        perform trunkline.group_raise_gone(cursor_id);
    end if;
    if newest.member_id is not null and trunkline.member_is_alive(newest.member_id) then
        raise exception 'member % holds this partition and commits what it has handled', newest.member_id
            using errcode = 'TL013', detail = cursor_id::text,
            hint = 'readers of one group use one kind of delivery: at_most_once shares a partition, the others own it';
    end if;
    select r."start", r."end" into log from trunkline.log_range(part.topic_id, part.partition) r;
    claimed_start := newest.next_offset;
    if claimed_start not between log."start" and log."end" then
        if outside = 'error' then
            perform trunkline.log_raise_outside(part.topic_id, part.partition, claimed_start);
        end if;
        claimed_start := case outside when 'earliest' then log."start" else log."end" end;
    end if;
    claimed_end := least(log."end", claimed_start + max_records);
    if claimed_end = newest.next_offset then
        return;
    end if;
    insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)
    values (group_claim.cursor_id, newest.seq + 1, newest.epoch, claimed_end, null, 'm', trunkline.clock_now())
    on conflict on constraint group_ledger_pkey do nothing;
    if not found then
        perform trunkline.group_raise_moved();
    end if;
end $$;
