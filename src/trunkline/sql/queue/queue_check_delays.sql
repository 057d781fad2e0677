-- Refuses delays and extensions that are negative, not finite, or longer than a day; and delays at whose end retention would
-- have taken the record for certain.
-- errors: TL001
-- grants: none
create function trunkline.queue_check_delays(queue_id integer, kinds text[], delays double precision[]) returns void
language plpgsql volatile
as $$
declare
    most  double precision;
    wrong record;
begin
    select least(t.retention_age_s, 31536000) into most
    from trunkline.queue q join trunkline.topic t using (topic_id) where q.queue_id = queue_check_delays.queue_id;
    select u.kind, u.delay, case when u.kind = 'e' then 86400 else most end as most into wrong
    from unnest(kinds, delays) u(kind, delay)
    where u.kind in ('n', 'e')
        and (u.delay >= 0 and u.delay <= case when u.kind = 'e' then 86400 else most end) is not true
    limit 1;
    if found then
        raise exception '% must be from 0 to % seconds, not %',
            case when wrong.kind = 'e' then 'an extension' else 'a delay' end, wrong.most,
            coalesce(wrong.delay::text, 'null') using errcode = 'TL001',
            hint = case when wrong.kind = 'n' then 'retention takes records of this topic after that time'
                else 'extend it again before that' end;
    end if;
end $$;
