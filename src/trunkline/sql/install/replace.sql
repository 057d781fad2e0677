-- Functions are replaced as a whole: what the older version had and this one has not goes too. The functions of
-- segments stay, and are made again at the end.
do $do$
declare
    old record;
begin
    for old in select p.oid::regprocedure as signature from pg_catalog.pg_proc p
        where p.pronamespace = 'trunkline'::regnamespace and p.proname !~ '^segment_[0-9]+_append$' loop
        execute format('drop function %s', old.signature);
    end loop;
end $do$;
