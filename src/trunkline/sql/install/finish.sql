-- Nothing of ours is for everybody; roles get what they are granted by name, below.
revoke all on schema trunkline from public;
revoke all on all routines in schema trunkline from public;
revoke all on all tables in schema trunkline from public;
do $do$
begin
    if not exists (select from pg_catalog.pg_trigger t where t.tgrelid = 'trunkline.outbox_stage'::regclass) then
        create constraint trigger outbox_begin after insert on trunkline.outbox_stage
            deferrable initially deferred for each row when (new.is_head) execute function trunkline.outbox_begin();
        create constraint trigger outbox_commit after delete on trunkline.outbox_stage
            deferrable initially deferred for each row when (old.is_head) execute function trunkline.outbox_commit();
        -- Also in sessions that replay what others did: nothing else would publish it there.
        alter table trunkline.outbox_stage enable always trigger outbox_begin;
        alter table trunkline.outbox_stage enable always trigger outbox_commit;
    end if;
    perform trunkline.segment_define_read(s.segment_id),
        case when s.sealed_at is null then trunkline.segment_define(s.segment_id) end,
        case when s.sealed_at is null then trunkline.outbox_define(s.segment_id) end
    from trunkline.segment s where s.released_at is null order by s.segment_id;
    perform trunkline.queue_define(t.table_no) from trunkline.queue_table t order by t.table_no;
end $do$;
-- Everything has one owner, whoever brings it up to date: functions that run as their owner call each other, and those of
-- triggers keep the owner that they had.
do $do$
declare
    owner constant oid := (select c.relowner from pg_catalog.pg_class c where c.oid = 'trunkline.meta'::regclass);
    made  record;
begin
    for made in
        select 'routine' as kind, p.oid::regprocedure::text as name from pg_catalog.pg_proc p
        where p.pronamespace = 'trunkline'::regnamespace and p.proowner <> owner
        union all
        select case c.relkind when 'c' then 'type' when 'S' then 'sequence' else 'table' end, c.oid::regclass::text
        from pg_catalog.pg_class c
        where c.relnamespace = 'trunkline'::regnamespace and c.relkind in ('r', 'c', 'S') and c.relowner <> owner
            -- Those of identity columns go with their table.
            and not exists (select from pg_catalog.pg_depend d
                where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'i' and c.relkind = 'S')
    loop
        execute format('alter %s %s owner to %I', made.kind, made.name, pg_get_userbyid(owner));
    end loop;
end $do$;
