-- Nothing of ours is for everybody; roles get what they are granted by name, below.
revoke all on schema trunkline from public;
revoke all on all functions in schema trunkline from public;
revoke all on all tables in schema trunkline from public;
do $do$
begin
    perform trunkline.segment_define(s.segment_id)
    from trunkline.segment s where s.sealed_at is null and s.released_at is null order by s.segment_id;
end $do$;
