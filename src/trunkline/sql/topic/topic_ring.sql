-- Wakes the readers of a topic, for publishers that are not our client's: call it after the commit, in a transaction
-- of its own, at most every few milliseconds. Only a hint; without it readers find new records when they poll next.
-- errors: TL001 TL002
-- grants: producer
create function trunkline.topic_ring(topic text, partition integer default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    perform pg_notify('trunkline_t' || trunkline.topic_id_of(topic), coalesce(partition::text, ''));
end $$;
