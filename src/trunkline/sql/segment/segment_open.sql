-- Opens what a read asks one segment (segment_query): by the segment's procedure, whose plans are cached, or, where they are
-- not to be kept, by statements that leave nothing behind in the server's process.
-- grants: none
create function trunkline.segment_open(
    segment_id integer, is_kept boolean, kind text,
    partition integer, here bigint, stop bigint, bytes_max bigint)
returns refcursor
language plpgsql volatile
as $$
declare
    found_rows refcursor;
begin
    if is_kept then
        begin
            execute 'call trunkline.segment_' || segment_id || '_read($1, $2, $3, $4, $5, null)'
                into found_rows using partition, here, stop, bytes_max, kind;
            return found_rows;
        exception when undefined_function or internal_error then
            -- Gone: the segment was dropped, or this is an old snapshot and its procedure is being made again. Its table
            -- may be there. Nothing else is to be hidden: internal_error stands for all of its class, data that is damaged
            -- among them.
            if sqlstate <> '42883' and sqlerrm not like 'cache lookup failed for function %' then
                raise;
            end if;
        end;
    end if;
    open found_rows no scroll for execute trunkline.segment_query(segment_id, kind)
        using partition, here, stop, bytes_max;
    return found_rows;
end $$;
