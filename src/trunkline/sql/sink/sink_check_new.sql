-- Refuses a batch that is new to a sink and yet lies before its newest one, or that comes while an earlier one is not
-- finished.
-- errors: TL018
-- grants: none
create function trunkline.sink_check_new(sink_no integer, newest_batch_id bigint, batch_id bigint) returns void
language plpgsql volatile
as $$
begin
    if batch_id < newest_batch_id then
        perform trunkline.sink_raise_rewound(batch_id, newest_batch_id);
    elsif newest_batch_id is not null and not exists (select from trunkline.sink_ledger l
        where l.sink_no = sink_check_new.sink_no and l.batch_id = newest_batch_id and l.kind = 'd') then
        raise exception 'batch % of this query was begun and not finished, and now comes batch %', newest_batch_id, batch_id
            using errcode = 'TL018', hint = 'the checkpoint was changed by hand; put it back, and start the query again';
    end if;
end $$;
