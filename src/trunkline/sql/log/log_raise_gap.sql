-- Says that the log has a gap, which must never happen.
-- errors: TL011, always
-- grants: none
create function trunkline.log_raise_gap(segment_id integer, partition integer, at_offset bigint) returns void
language plpgsql immutable
as $$
begin
    raise exception 'segment % has a gap in partition % at or after offset %', segment_id, partition, at_offset
        using errcode = 'TL011', hint = 'this must never happen; please report it';
end $$;
