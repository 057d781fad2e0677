-- An id of a record that no other record ever has, also where its topic is made again under its old name.
-- errors: TL001 TL002
-- grants: consumer
create function trunkline.record_id(topic text, partition integer, record_offset bigint) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.topic_id_of(topic);
begin
    return format('%s-%s-%s', (select to_hex(t.incarnation) from trunkline.topic t where t.topic_id = id), partition,
        record_offset);
end $$;
