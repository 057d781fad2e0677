-- Wakes the readers of a partition, when the transaction commits: those who read all of its topic, and those who hold
-- this partition alone. Only a hint.
-- locks: none; NOTIFY has one that all commits of the server share
-- grants: none
create function trunkline.partition_ring(topic_id integer, partition integer) returns void
language plpgsql volatile
as $$
begin
    perform pg_notify('trunkline_t' || topic_id, partition::text),
        pg_notify('trunkline_t' || topic_id || '_' || partition, '');
end $$;
