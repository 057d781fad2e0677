-- Whether a member's process lives: its listening session holds its lock, or it has added a beat in time. False for one
-- that is not a member. Not to be asked in that session itself, which could always take its own lock.
-- grants: none
create function trunkline.member_is_alive(member_id integer) returns boolean
language sql volatile
as $$
    select coalesce((
        select case when m.timeout_s is null
                then not pg_catalog.pg_try_advisory_xact_lock_shared(trunkline.lock_class() + 3, m.session_no)
            else (select b.at > trunkline.clock_now() - m.timeout_s * interval '1 second'
                from trunkline.session_beat b where b.session_no = m.session_no order by b.at desc limit 1) end
        from trunkline.group_member m where m.member_id = member_is_alive.member_id), false)
$$;
