-- The outbox: records that were published in a transaction of the application's, until it commits.

-- What a transaction has put down, in its order; gone when it ends, one way or the other. Not logged: after a crash the
-- transactions it belonged to are gone too. Rows are inserted and deleted by one transaction, which finds them by its
-- own id, so what others have left for vacuum is not met. Triggers on the head of a transaction do the work of its commit,
-- in two turns (outbox_begin, outbox_commit).
create unlogged table trunkline.outbox_stage (
    transaction_id      bigint not null,
    ordinal             bigint generated always as identity,
    partition_id        integer not null,
    expected_partitions integer,
    record_count        integer not null,
    is_head             boolean not null,      -- no other row of the transaction was there
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

-- What handlers by group key have given up, for people: a row each time. Old ones go when a new one comes.
create table trunkline.group_failure (
    failure_id   bigint generated always as identity primary key,
    cursor_id    integer not null references trunkline.group_cursor on delete cascade,
    first_offset bigint not null,
    record_count integer not null,
    key          bytea,
    group_key    bytea,
    attempts     integer not null,
    reason       text not null,
    failed_at    timestamptz not null
);
create index group_failure_cursor on trunkline.group_failure (cursor_id, failed_at);

-- A key of two parts that waits for a redrive, in one partition of a group. Rows exist for failures only.
create table trunkline.group_blocked (
    cursor_id  integer not null references trunkline.group_cursor on delete cascade,
    key_id     bytea not null,           -- parked_key_id: a key itself may be too long for an index
    key        bytea,
    group_key  bytea,
    attempts   integer not null,
    reason     text not null,
    blocked_at timestamptz not null,
    due_at     timestamptz,              -- when a redrive was asked for; null: none was
    primary key (cursor_id, key_id)
);
create index group_blocked_due on trunkline.group_blocked (cursor_id, due_at) where due_at is not null;

-- The records of such a key, whole: the log they were read from may have lost them by the time of the redrive.
create table trunkline.group_parked (
    cursor_id     integer not null,
    key_id        bytea not null,
    record_offset bigint not null,
    behind        bigint,                -- the offset it waits behind; null: it is among those that failed
    payload       bytea not null,
    header_names  text[] not null,
    header_values bytea[] not null,
    append_time   timestamptz not null,
    primary key (cursor_id, key_id, record_offset),
    foreign key (cursor_id, key_id) references trunkline.group_blocked on delete cascade
);

-- What has been done elsewhere, by ids of records (inbox_add). Rows are inserted, and go by age in the background.
create table trunkline.inbox (
    inbox_id   integer generated always as identity primary key,
    name       text collate "C" not null unique,
    keep_s     bigint not null check (keep_s > 0),
    created_at timestamptz not null
);
create table trunkline.inbox_entry (
    inbox_id integer not null references trunkline.inbox on delete cascade,
    entry_id bytea not null,
    added_at timestamptz not null,
    primary key (inbox_id, entry_id)
);
create index inbox_entry_age on trunkline.inbox_entry (inbox_id, added_at);

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

-- Whether what callers' transactions publish gets its place after their commits, not in them: commits then wait for
-- nobody, and the order of transactions in a partition need not be the order in which they committed.
alter table trunkline.topic add column loose_commit_order boolean not null default false;

-- What such transactions have committed, until somebody gives it its place (outbox_sequence).
create table trunkline.outbox_pending (
    partition_id        integer not null,
    pending_id          bigint generated always as identity,
    transaction_id      bigint not null,
    expected_partitions integer,
    record_count        integer not null,
    keys                bytea[],
    payloads            bytea[] not null,
    header_counts       integer[],
    header_names        text[],
    header_values       bytea[],
    primary key (partition_id, pending_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off, toast.vacuum_truncate = off);
