-- What can be set of a queue, and whether it is paused.
-- grants: none
create function trunkline.queue_settings(q trunkline.queue) returns jsonb
language sql stable
as $$
    select jsonb_build_object('ack_deadline_s', q.ack_deadline_s, 'max_attempts', q.max_attempts,
        'dead_letter', q.dead_letter, 'is_ordered', q.is_ordered, 'pause_above', q.pause_above,
        'bury_expired', q.bury_expired, 'paused_at', q.paused_at, 'pause_reason', q.pause_reason)
$$;
