-- Parks records of one key: they wait, whole, until the key is redriven. In the caller's transaction, which moves the
-- cursor past them. behind is the offset that they wait behind; null where they have failed themselves, after attempts.
-- What is parked already, as after a seek back, stays as it is. header_counts says how many of the headers each has.
-- locks: those of parked_begin, which the caller has taken
-- errors: TL001, 23503 where the cursor is gone
-- grants: consumer
create function trunkline.parked_add(
    cursor_id integer, key bytea, group_key bytea, attempts integer, reason text, behind bigint, offsets bigint[],
    payloads bytea[], header_counts integer[], header_names text[], header_values bytea[], append_times timestamptz[])
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id    constant bytea := trunkline.parked_key_id(key, group_key);
    ended integer := 0;
begin
    if (cardinality(offsets) > 0 and cardinality(payloads) = cardinality(offsets)
        and cardinality(header_counts) = cardinality(offsets) and cardinality(append_times) = cardinality(offsets)
        and cardinality(header_values) = cardinality(header_names)) is not true then
        raise exception 'offsets, payloads, headers and times must be as many, and at least one' using errcode = 'TL001';
    end if;
    insert into trunkline.group_blocked as b (cursor_id, key_id, key, group_key, attempts, reason, blocked_at)
    values (parked_add.cursor_id, id, parked_add.key, parked_add.group_key, parked_add.attempts, parked_add.reason,
        trunkline.clock_now())
    on conflict on constraint group_blocked_pkey do update
        set attempts = excluded.attempts, reason = excluded.reason, blocked_at = excluded.blocked_at
        where parked_add.behind is null;
    for i in 1 .. cardinality(offsets) loop
        insert into trunkline.group_parked (cursor_id, key_id, record_offset, behind, payload, header_names,
            header_values, append_time)
        values (parked_add.cursor_id, id, offsets[i], parked_add.behind, payloads[i],
            header_names[ended + 1 : ended + header_counts[i]], header_values[ended + 1 : ended + header_counts[i]],
            append_times[i])
        on conflict on constraint group_parked_pkey do nothing;
        ended := ended + header_counts[i];
    end loop;
end $$;
