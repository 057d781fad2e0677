-- Which records of a partition an inbox knows already, of those that are asked for. Adds nothing.
-- errors: TL002 where there is no such topic
-- grants: consumer
create function trunkline.inbox_find(inbox text, topic text, partition integer, record_offsets bigint[]) returns bigint[]
language plpgsql stable security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    topic_no constant integer := trunkline.topic_id_of(topic);
    prefix   constant text := (select to_hex(t.incarnation) from trunkline.topic t where t.topic_id = topic_no);
begin
    return array(
        select o.number from unnest(record_offsets) o(number)
        where exists (
            select from trunkline.inbox_entry e join trunkline.inbox i on i.inbox_id = e.inbox_id
            where i.name = inbox_find.inbox collate "C"
                and e.entry_id = convert_to(format('%s-%s-%s', prefix, partition, o.number), 'UTF8'))
        order by o.number);
end $$;
