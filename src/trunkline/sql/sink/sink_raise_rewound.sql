-- Says that a batch cannot belong to the query that has written the others.
-- errors: TL018
-- grants: none
create function trunkline.sink_raise_rewound(batch_id bigint, newest_batch_id bigint) returns void
language plpgsql volatile
as $$
begin
    raise exception 'batch % of this query was published before, and batch % is the newest: the checkpoint was rewound, '
        'copied, or is used by two queries', batch_id, newest_batch_id using errcode = 'TL018',
        hint = 'nothing was published; start one query on the newest checkpoint, or a new checkpoint for a new query';
end $$;
