-- The outbox: records that were published in a transaction of the application's, until it commits.

-- What a transaction has put down, in its order; gone when it ends, one way or the other. Not logged: after a crash the
-- transactions it belonged to are gone too. Rows are inserted and deleted by one transaction, which finds them by its
-- own id, so what others have left for vacuum is not met.
create unlogged table trunkline.outbox_stage (
    transaction_id      bigint not null,
    ordinal             bigint generated always as identity,
    partition_id        integer not null,
    expected_partitions integer,
    record_count        integer not null,
    keys                bytea[],
    payloads            bytea[] not null,
    header_counts       integer[],
    header_names        text[],
    header_values       bytea[]
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off, toast.vacuum_truncate = off);
create index outbox_stage_transaction on trunkline.outbox_stage (transaction_id, partition_id, ordinal);
alter table trunkline.outbox_stage
    alter keys set storage external, alter payloads set storage external, alter header_counts set storage external,
    alter header_names set storage external, alter header_values set storage external,
    alter keys set statistics 0, alter payloads set statistics 0, alter header_counts set statistics 0,
    alter header_names set statistics 0, alter header_values set statistics 0;

-- One row while a transaction has something in the stage. Its triggers do the work of the commit, in two turns
-- (outbox_begin, outbox_commit).
create unlogged table trunkline.outbox_head (
    transaction_id bigint primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off);

-- A table of the application's whose rows are published as they are inserted (outbox_attach). Its columns are known by
-- their names, and the table by regclass: so they are still right after a dump was restored. The topic may be gone.
create table trunkline.outbox_source (
    table_id         regclass primary key,
    table_name       text not null,        -- as it was called when it was attached
    topic_id         integer not null,
    incarnation      bigint not null,
    topic_name       text not null,
    payload_column   text not null,
    key_column       text,
    group_key_column text,
    headers_column   text,
    attached_by      text not null,
    attached_at      timestamptz not null
);

-- Which partitions a member takes at most; null: any of its topics'.
alter table trunkline.group_member add column partitions integer[];
