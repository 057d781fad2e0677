-- Refuses names and settings that a queue cannot have. is_whole: what is not named is not set.
-- errors: TL001
-- grants: none
create function trunkline.queue_check(name text, start text, asked jsonb, is_whole boolean) returns void
language plpgsql volatile
as $$
declare
    wrong text;
begin
    if name is null or name collate "C" !~ '^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$' or position('..' in name) > 0 then
        raise exception 'not a queue name: %', coalesce(quote_literal(left(name, 80)), 'null') using errcode = 'TL001',
            hint = '1 to 200 of A-Z a-z 0-9 . _ - /, no leading dash, dot or slash, no two dots in a row';
    elsif start is null or start not in ('earliest', 'latest') then
        raise exception 'a queue begins at earliest or latest' using errcode = 'TL001';
    end if;
    wrong := case
        when not coalesce((asked ->> 'ack_deadline_s')::double precision between 0.001 and 86400, true)
            then 'ack_deadline_s must be from 0.001 to 86400 seconds'
        when not coalesce((asked ->> 'max_attempts')::integer between 1 and 1000000, true)
            then 'max_attempts must be from 1 to 1000000'
        when not coalesce((asked ->> 'pause_above')::double precision > 0
            and (asked ->> 'pause_above')::double precision <= 1, true)
            then 'pause_above must be above 0 and at most 1' end;
    if wrong is not null then
        raise exception '%', wrong using errcode = 'TL001';
    end if;
    if is_whole and asked ->> 'max_attempts' is not null and asked ->> 'dead_letter' is null then
        raise exception 'max_attempts needs a dead letter topic for what has failed so often' using errcode = 'TL001',
            hint = 'give dead_letter, the name of a topic, too';
    end if;
    if asked ->> 'dead_letter' is not null then
        perform trunkline.topic_check_name(asked ->> 'dead_letter');
    end if;
end $$;
