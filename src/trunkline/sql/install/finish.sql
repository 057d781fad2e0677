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
    perform trunkline.segment_define(s.segment_id), trunkline.outbox_define(s.segment_id)
    from trunkline.segment s where s.sealed_at is null and s.released_at is null order by s.segment_id;
    perform trunkline.queue_define(t.table_no) from trunkline.queue_table t order by t.table_no;
end $do$;
