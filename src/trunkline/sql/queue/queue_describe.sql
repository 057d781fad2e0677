-- Where a queue stands in each partition (see queue_positions).
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.queue_describe(topic text, name text)
returns table (
    partition integer, "start" bigint, floor bigint, frontier bigint, "end" bigint, in_flight bigint, waiting bigint,
    next_due timestamptz, oldest_claim_at timestamptz, expired bigint, table_bytes bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    loop
        begin
            return query
                select p.partition, p."start", p.floor, p.frontier, p."end", p.in_flight, p.waiting, p.next_due,
                    p.oldest_claim_at, p.expired, p.table_bytes
                from trunkline.queue_positions(trunkline.queue_id_of(topic, name)) p;
            return;
        exception when undefined_table then
            -- A part has moved since, and its old tables are gone: the next statement sees where it is.
            if current_setting('transaction_isolation') <> 'read committed' then
                raise;
            end if;
        end;
    end loop;
end $$;
