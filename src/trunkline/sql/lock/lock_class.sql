-- First integer of our advisory locks: n for partitions, n + 1 for topics (rolls, changes), n + 2 for cursors of
-- groups, n + 3 for processes with members of groups (held by their sessions), n + 4 for groups (who reads what), n + 5
-- for sinks, n + 6 for parts of queues, n + 7 for claims, n + 8 for queues (their tables).
-- Chosen at random when the schema is installed, so that an application's own two-integer locks are not met by accident.
-- grants: none
do $do$
begin
    execute format(
        'create function trunkline.lock_class() returns integer language sql immutable parallel safe as %L',
        format('select %s', (select m.lock_class from trunkline.meta m)));
end $do$;
