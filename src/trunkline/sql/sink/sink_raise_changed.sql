-- Says that a batch has another number of records than when it was published.
-- errors: TL018
-- grants: none
create function trunkline.sink_raise_changed(batch_id bigint, published_count bigint, record_count bigint) returns void
language plpgsql volatile
as $$
begin
    raise exception 'batch % of this query was published before, with % records, and now has %: the checkpoint was rewound, '
        'copied, or is used by two queries', batch_id, published_count, record_count using errcode = 'TL018',
        hint = 'nothing was published; start one query on the newest checkpoint, or a new checkpoint for a new query; where '
            'the query itself finds other rows each time, skip the batch with option failOnChangedBatch=false';
end $$;
