-- The tables that are attached, by name: to which topic, by which columns, since when, and what is wrong with it (null:
-- nothing).
-- errors: none
-- grants: admin
create function trunkline.outbox_source_list()
returns table (
    table_name text, topic text, payload_column text, key_column text, group_key_column text, headers_column text,
    attached_by text, attached_at timestamptz, problem text)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    source      trunkline.outbox_source;
    found_table record;
    state       "char";
begin
    for source in select s.* from trunkline.outbox_source s order by s.table_id::text loop
        select c.relispartition into found_table from pg_class c where c.oid = source.table_id;
        if not found then
            problem := 'the table was dropped: detach it';
        else
            problem := null;
            select t.tgenabled into state from pg_trigger t
            where t.tgrelid = source.table_id and t.tgname = 'trunkline_outbox'
                and t.tgfoid = to_regproc('trunkline.outbox_relay');
            if not found then
                problem := 'its trigger was dropped, and its rows are not published: detach it, and attach it again';
            elsif state not in ('O', 'A') then
                problem := format('its trigger is disabled, and its rows are not published: alter table %s '
                    'enable trigger trunkline_outbox', source.table_id);
            elsif found_table.relispartition then
                problem := 'it has become a partition: what is inserted through its parent is not published; detach it';
            elsif not exists (select from trunkline.topic t
                    where t.topic_id = source.topic_id and t.incarnation = source.incarnation) then
                problem := 'its topic was deleted, and inserts fail: detach it, and attach it to another';
            else
                begin
                    perform trunkline.outbox_select(source);
                exception when sqlstate 'TL001' or sqlstate 'TL002' then
                    problem := format('inserts fail: %s; detach it, and attach it again', sqlerrm);
                end;
            end if;
        end if;
        table_name := case when found_table is null then source.table_name else source.table_id::text end;
        topic := source.topic_name;
        payload_column := source.payload_column;
        key_column := source.key_column;
        group_key_column := source.group_key_column;
        headers_column := source.headers_column;
        attached_by := source.attached_by;
        attached_at := source.attached_at;
        return next;
    end loop;
end $$;
