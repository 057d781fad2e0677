-- The first offset that was appended at or after a time; the end of the log where none was. Append times never
-- run backwards in offset order, so this is a binary search along the primary key.
-- errors: TL001 TL002, 40001 where a REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_offset_at(topic_id integer, partition integer, "time" timestamptz) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    low     bigint;
    high    bigint;
    middle  bigint;
    segment integer;
    batch   record;
begin
    if "time" is null then
        raise exception 'time must not be null' using errcode = 'TL001';
    end if;
    select r."start", r."end" into low, high from trunkline.log_range(topic_id, partition) r;
    -- The answer is in [low, high]: everything before low is older, everything from high on is not.
    while low < high loop
        middle := low + (high - low) / 2;
        begin
            segment := (trunkline.log_place(topic_id, partition, middle)).segment_id;
            execute format('select b.first_offset, b.record_count, b.append_time from trunkline.%I b
                where b.partition = $1 and b.first_offset <= $2 order by b.first_offset desc limit 1',
                'segment_' || segment) into batch using partition, middle;
        exception when sqlstate 'TL005' or undefined_table then
            if current_setting('transaction_isolation') <> 'read committed' then
                raise exception 'records of this transaction''s snapshot have been dropped by retention'
                    using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';
            end if;
            -- Retention passed by: the log starts later now.
            select r."start", r."end" into low, high from trunkline.log_range(topic_id, partition) r;
            continue;
        end;
        if batch.append_time >= "time" then
            high := greatest(batch.first_offset, low);
        else
            low := batch.first_offset + batch.record_count;
        end if;
    end loop;
    return low;
end $$;
