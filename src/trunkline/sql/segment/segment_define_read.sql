-- Makes, or makes again, the procedure by which one segment is read: segment_<id>_read. It opens what is asked for
-- (segment_query) by a plan that is cached. Nothing in its text changes.
-- grants: none
create function trunkline.segment_define_read(segment_id integer) returns void
language plpgsql volatile
as $define$
declare
    name   constant text := 'segment_' || segment_id || '_read';
    kind   text;
    choice text := '';
begin
    foreach kind in array '{batches,is_run,runs,full_runs,end_of_run,end_of_full_run}'::text[] loop
        choice := choice || format(E'    when %L then\n    open found_rows no scroll for %s;\n',
            kind, trunkline.segment_query(segment_id, kind));
    end loop;
    execute format($procedure$
create or replace procedure trunkline.%I(integer, bigint, bigint, bigint, kind text, inout found_rows refcursor)
language plpgsql
as $body$
begin
    case kind
%s
    end case;
end $body$
$procedure$, name, choice);
    execute format('revoke all on procedure trunkline.%I from public', name);
end $define$;
