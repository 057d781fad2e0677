-- Wakes the readers of a topic, for publishers that are not our client's: call it after the commit, in a transaction
-- of its own, at most every few milliseconds. Only a hint; without it readers find new records when they poll next.
-- Records of the topic that wait for their place after a commit (loose_commit_order) get it first.
-- errors: TL001 TL002
-- grants: producer
create function trunkline.topic_ring(topic text, partition integer default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.topic_id_of(topic);
begin
    perform trunkline.outbox_sequence(array(select p.partition_id from trunkline.topic_partition p where p.topic_id = id));
    if partition is not null then
        perform trunkline.partition_ring(id, partition);
    else
        -- One ring for those who read all of it, one for those who hold some of it, however many partitions there are.
        perform pg_notify('trunkline_t' || id, ''), pg_notify('trunkline_t' || id || '_all', '');
    end if;
end $$;
