-- Makes a process a member of a group that reads topics; it holds nothing yet. partitions: which of them it takes at
-- most; null for any. timeout_s: how long it counts as alive
-- after each beat; null for a process whose session holds its lock (member_session). The same token again is the same
-- membership.
-- locks: the group
-- errors: TL001, TL002 the group was deleted, 55P03
-- grants: consumer
create function trunkline.member_join(
    group_id integer, session_no integer, timeout_s double precision, topic_ids integer[], name text,
    token bigint, partitions integer[] default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    new_id integer;
begin
    if (cardinality(topic_ids) >= 1 and not exists (select from unnest(topic_ids) t where t is null)
        and session_no >= 1 and token is not null
        and (partitions is null or cardinality(partitions) >= 1 and 0 <= all (partitions))
        and (timeout_s is null or timeout_s > 0 and timeout_s <= 86400)) is not true then
        raise exception 'a member reads at least one topic and partition, has a session, and a timeout of at most a day'
            using errcode = 'TL001';
    end if;
    perform trunkline.lock_group(group_id);
    insert into trunkline.group_member as m (group_id, session_no, timeout_s, topic_ids, name, token, joined_at,
        partitions)
    select g.group_id, member_join.session_no, member_join.timeout_s, member_join.topic_ids,
        coalesce(left(member_join.name, 200), ''), member_join.token, trunkline.clock_now(),
        member_join.partitions
    from trunkline.reader_group g where g.group_id = member_join.group_id
    on conflict on constraint group_member_token_key do nothing
    returning m.member_id into new_id;
    if new_id is null then
        select m.member_id into new_id from trunkline.group_member m where m.token = member_join.token;
    end if;
    if new_id is null then
        raise exception 'the group was deleted' using errcode = 'TL002', hint = 'create it again';
    end if;
    return new_id;
end $$;
