-- Functions are replaced as a whole: what the older version had and this one has not goes too. Those of segments are
-- made again at the end; who makes them elsewhere holds the topic's lock, who drops them has locked their row. Those of triggers are replaced where they
-- stand: tables hang on them.
do $do$
declare
    old record;
begin
    if to_regproc('trunkline.topic_lock') is not null then
        perform trunkline.topic_lock(t.topic_id) from trunkline.topic t order by t.topic_id;
        -- Nor does anybody drop routines of segments meanwhile, or of one that it has begun with. Only these rows: a publish
        -- that moves its partition looks at that of the open segment, and must not wait until its functions are gone.
        perform from trunkline.segment s where s.released_at is not null order by s.segment_id for update;
    end if;
    for old in select p.oid::regprocedure as signature from pg_catalog.pg_proc p
        where p.pronamespace = 'trunkline'::regnamespace and p.prorettype <> 'trigger'::regtype loop
        execute format('drop routine %s', old.signature);
    end loop;
end $do$;
