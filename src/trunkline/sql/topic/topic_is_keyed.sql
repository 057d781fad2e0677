-- Whether any record in a topic's log has a key. Sealed segments know; open ones are looked through.
-- grants: none
create function trunkline.topic_is_keyed(topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    segment record;
    keyed   boolean;
begin
    for segment in select s.segment_id, s.sealed_at, s.keyed from trunkline.segment s
        where s.topic_id = topic_is_keyed.topic_id and s.released_at is null order by s.segment_id loop
        keyed := segment.keyed;
        if segment.sealed_at is null then
            execute format('select exists (select from trunkline.%I b where b.keys is not null)',
                'segment_' || segment.segment_id) into keyed;
        end if;
        if keyed then
            return true;
        end if;
    end loop;
    return false;
end $$;
