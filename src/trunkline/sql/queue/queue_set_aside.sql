-- Of the records at places a to z of a batch: those that may be delivered now, and those that are to be delivered later,
-- with the time. Where the batch is a run of single records, append_times has the time of each. In an ordered queue
-- nothing goes before a record that has to wait: it ends before the first of those.
-- grants: none
create function trunkline.queue_set_aside(
    first_offset bigint, append_time timestamptz, append_times timestamptz[], a integer, z integer,
    header_counts integer[], header_names text[], header_values bytea[], at timestamptz, is_ordered boolean,
    out ready int8multirange, out last_place integer, out dues timestamptz[], out tickets int8multirange[])
language plpgsql volatile
as $$
begin
    select array_agg(t.due order by t.due), array_agg(t.offsets order by t.due), coalesce(min(t.place), z + 1)
    into dues, tickets, last_place
    from (
        select x.due, min(x.place) as place,
            range_agg(int8range(first_offset + x.place - 1, first_offset + x.place)) as offsets
        from (
            select d.place, coalesce(append_times[d.place], append_time) + d.delay_s * interval '1 second' as due
            from trunkline.queue_delays(header_counts, header_names, header_values) d where d.place between a and z) x
        where x.due > at group by x.due) t;
    if is_ordered then
        if last_place <= z then
            dues := array[(select coalesce(append_times[d.place], append_time) + d.delay_s * interval '1 second'
                from trunkline.queue_delays(header_counts, header_names, header_values) d where d.place = last_place)];
        end if;
        last_place := last_place - 1;
        ready := int8multirange(int8range(first_offset + a - 1, first_offset + last_place));
        return;
    end if;
    last_place := z;
    ready := int8multirange(int8range(first_offset + a - 1, first_offset + z))
        - coalesce((select range_agg(r) from unnest(tickets) m, unnest(m) r), '{}');
end $$;
