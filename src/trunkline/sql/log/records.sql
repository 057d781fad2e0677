-- A topic as one row a record, for people and for joins:
--     select r.offset, r.key, r.payload from trunkline.records('orders', 0) r;
-- From offset `start` on (default: the start of the log), or from the first record appended at or after `since`;
-- of every partition, or of one. At most max_records rows of each partition; without it 1,000, with a notice where
-- there are more. headers is readable JSON ([["name", "value"], …], a value that is not UTF-8 as \x…); names and
-- values stand beside it as they are.
-- errors: TL001 TL002 TL005
-- grants: consumer
create function trunkline.records(
    topic text, partition integer default null, start bigint default null, max_records integer default null,
    since timestamptz default null)
returns setof trunkline.record_row
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id    constant integer := trunkline.topic_id_of(topic);
    part  record;
    first bigint;
    bound constant integer := coalesce(max_records, 1000);
begin
    if bound < 1 then
        raise exception 'max_records must be at least 1' using errcode = 'TL001';
    elsif start is not null and since is not null then
        raise exception 'give start or since, not both' using errcode = 'TL001';
    end if;
    for part in select r.* from trunkline.log_range(id, partition) r loop
        first := coalesce(start, part."start");
        if since is not null then
            first := trunkline.log_offset_at(id, part.partition, since);
        end if;
        if max_records is null and part."end" - first > bound then
            raise notice 'partition % has % records from offset % on; the first % are shown',
                part.partition, part."end" - first, first, bound using hint = 'give max_records for more';
        end if;
        return query select x.* from trunkline.log_records(id, part.partition, first, bound) x;
    end loop;
end $$;
