-- Takes stages away that nobody will publish: of a task that failed, of a batch that was in the log already. What belongs
-- to a batch that was begun stays. How many rows went.
-- locks: the rows of the stages
-- grants: producer
create function trunkline.sink_discard(stage_nos integer[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    place record;
    gone  integer := 0;
    n     integer;
begin
    -- A commit that begins holds these rows. Whether it has begun shows in a later statement than the lock.
    perform from trunkline.sink_stage s where s.stage_no = any (stage_nos) order by s.stage_no, s.segment_id for update;
    for place in delete from trunkline.sink_stage s
        where s.stage_no = any (stage_nos) and not exists (select from trunkline.sink_ledger l
            where l.kind = 'b' and s.stage_no = any (l.stage_nos) and not exists (select from trunkline.sink_ledger d
                where d.sink_no = l.sink_no and d.batch_id = l.batch_id and d.kind = 'd'))
        returning s.stage_no, s.segment_id loop
        if to_regclass('trunkline.segment_' || place.segment_id) is not null then
            execute format('delete from trunkline.%I b where b.partition = -$1', 'segment_' || place.segment_id)
                using place.stage_no;
            get diagnostics n = row_count;
            gone := gone + n;
        end if;
    end loop;
    return gone;
end $$;
