-- Which records of a batch are not to be delivered at once: their places, and how many seconds after they were appended.
-- What is no number is no delay.
-- grants: none
create function trunkline.queue_delays(header_counts integer[], header_names text[], header_values bytea[])
returns table (place integer, delay_s double precision)
language sql immutable
as $$
    select c.n::integer, max(convert_from(header_values[h.n], 'UTF8')::double precision)
    from (
        select u.n, sum(u.c) over (order by u.n) as last, u.c from unnest(header_counts) with ordinality u(c, n)) c
    join unnest(header_names) with ordinality h(name, n) on h.n > c.last - c.c and h.n <= c.last
    where h.name = 'trunkline-deliver-after'
        -- Bytes, not text: what is no UTF-8 is no error here.
        and encode(header_values[h.n], 'escape') ~ '^[0-9]{1,9}(\.[0-9]{1,9})?$'
    group by c.n
$$;
