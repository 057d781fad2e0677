-- Drops the table of a released segment, and its catalogue rows. Call it in a transaction of its own: the log
-- start has moved in an earlier one, so no reader that asks now is sent there.
-- Waits at most a second for a reader that still holds the table; then nothing has changed, and it can be tried
-- again. Returns false where there was nothing to drop.
-- locks: the table, exclusively
-- errors: TL001 where the segment is not released, 55P03
-- grants: admin
create function trunkline.segment_drop(segment_id integer) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set lock_timeout = '1s'
as $$
declare
    released timestamptz;
begin
    select s.released_at into released from trunkline.segment s
    where s.segment_id = segment_drop.segment_id for update;
    if not found then
        return false;
    elsif released is null then
        raise exception 'segment % holds records that can still be read', segment_id using errcode = 'TL001',
            hint = 'retention_release moves the log start first';
    end if;
    execute format('drop table if exists trunkline.%I', 'segment_' || segment_id);
    execute format('drop function if exists trunkline.%I', 'segment_' || segment_id || '_append');
    execute format('drop procedure if exists trunkline.%I', 'segment_' || segment_id || '_take');
    execute format('drop procedure if exists trunkline.%I', 'segment_' || segment_id || '_read');
    delete from trunkline.segment s where s.segment_id = segment_drop.segment_id;
    return true;
end $$;
