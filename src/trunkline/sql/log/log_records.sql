-- One row a record, of one partition, at most max_records: what records shows.
-- errors: TL002 TL005
-- grants: none
create function trunkline.log_records(topic_id integer, partition integer, start bigint, max_records integer)
returns setof trunkline.record_row
language plpgsql volatile
as $$
declare
    wanted bigint := max_records;
    here   bigint := start;
    batch  record;
    got    boolean;
begin
    while wanted > 0 loop
        got := false;
        for batch in select * from trunkline.log_read(topic_id, partition, here,
                least(wanted, 10000)::integer, 8388608) loop
            return query
                select partition, batch.first_offset + u.n - 1, batch.keys[u.n], u.payload,
                    trunkline.headers_readable(h.names, h.values), batch.append_time, h.names, h.values
                from unnest(batch.payloads) with ordinality u(payload, n)
                left join lateral (
                    select batch.header_names[before.k + 1 : before.k + batch.header_counts[u.n]] as names,
                        batch.header_values[before.k + 1 : before.k + batch.header_counts[u.n]] as values
                    from (select coalesce(sum(c), 0)::integer as k from unnest(batch.header_counts[1:u.n - 1]) c) before
                    where batch.header_counts is not null) h on true
                where batch.first_offset + u.n - 1 >= here
                order by u.n limit wanted;
            wanted := wanted - (batch.first_offset + batch.record_count - here);
            here := batch.first_offset + batch.record_count;
            got := true;
        end loop;
        exit when not got;
    end loop;
end $$;
