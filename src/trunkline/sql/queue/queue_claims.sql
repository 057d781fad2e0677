-- What of a queue is held, and by whom, or waits (then holder is null).
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.queue_claims(topic text, name text)
returns table (
    partition integer, claim_no bigint, offsets int8multirange, record_count bigint, attempt integer, holder text,
    claimed_at timestamptz, deadline timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    loop
        begin
            return query
                select t.partition, c.claim_no, c.offsets, trunkline.offsets_count(c.offsets), c.attempt, c.holder,
                    case when c.kind = 'c' then c.at end, c.deadline
                from trunkline.queue_part p join trunkline.topic_partition t using (partition_id)
                cross join lateral trunkline.queue_open(p.part_id, p.table_no) c
                where p.queue_id = trunkline.queue_id_of(topic, name)
                order by t.partition, c.claim_no;
            return;
        exception when undefined_table then
            -- A part has moved since, and its old tables are gone: the next statement sees where it is.
            if current_setting('transaction_isolation') <> 'read committed' then
                raise;
            end if;
        end;
    end loop;
end $$;
