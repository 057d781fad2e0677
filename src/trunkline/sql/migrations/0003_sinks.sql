-- Sinks: what a job that runs in numbered batches, above all a Spark query, publishes exactly once.

-- One row: one place where one query writes.
create table trunkline.sink (
    sink_no    integer generated always as identity primary key,     -- second integer of the sink's lock
    query_id   text collate "C" not null check (length(query_id) between 1 and 200),
    sink_id    text collate "C" not null check (length(sink_id) between 1 and 200),
    is_named   boolean not null,          -- false: its query_id was made up for one write, and nobody comes back with it
    created_at timestamptz not null,
    unique (query_id, sink_id)
);

-- Appended, never updated: which batch of a sink was begun (with the stages that are its records), done, or met again by
-- a later run.
create table trunkline.sink_ledger (
    sink_no      integer not null,
    seq          bigint not null,
    batch_id     bigint not null,
    kind         "char" not null check (kind in ('b', 'd', 's')),    -- begun, done, skipped
    run_id       text collate "C" not null,
    stage_nos    integer[],
    record_count bigint,
    at           timestamptz not null,
    primary key (sink_no, seq)
);
create index sink_ledger_batch on trunkline.sink_ledger (sink_no, batch_id);

-- A stage is what one task has put down: rows of a segment under the partition -stage_no, which no reader looks at,
-- numbered in first_offset, with the partition they are meant for in transaction_ordinal. Publishing one gives it its
-- partition and its offsets; its arrays stay where they are.
create sequence trunkline.sink_stage_no as integer cycle;
create table trunkline.sink_stage (
    stage_no   integer not null,
    segment_id integer not null,
    at         timestamptz not null,
    primary key (stage_no, segment_id)
);
create index sink_stage_at on trunkline.sink_stage (at);

-- A staged batch, on its way into the log.
create type trunkline.staged_batch as (
    stage_no integer, segment_id integer, ordinal bigint, partition_id integer, record_count integer);
