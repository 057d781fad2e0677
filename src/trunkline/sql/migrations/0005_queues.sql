-- Queues: readers that acknowledge each record, on the same log.

create table trunkline.queue (
    queue_id       integer generated always as identity primary key,     -- second integer of the queue's lock
    topic_id       integer not null references trunkline.topic on delete cascade,
    name           text collate "C" not null,
    ack_deadline_s double precision not null check (ack_deadline_s >= 0.001 and ack_deadline_s <= 86400),
    max_attempts   integer check (max_attempts between 1 and 1000000),      -- null: as many as it takes
    dead_letter    text collate "C",                                        -- a topic's name
    is_ordered     boolean not null,
    pause_above    double precision check (pause_above > 0 and pause_above <= 1),
    bury_expired   boolean not null,
    table_bytes    bigint not null default 67108864 check (table_bytes >= 65536),    -- at which claims move to new tables
    paused_at      timestamptz,
    resumed_at     timestamptz,
    pause_reason   text,
    created_at     timestamptz not null,
    unique (topic_id, name),
    check (max_attempts is null or dead_letter is not null)
);

-- A queue in one partition. What changes stands in claim_<table_no> and closure_<table_no> (queue_table_create).
create sequence trunkline.queue_table_no as integer;
create table trunkline.queue_part (
    part_id      integer generated always as identity primary key,       -- second integer of the part's lock
    queue_id     integer not null references trunkline.queue on delete cascade,
    partition_id integer not null references trunkline.topic_partition on delete cascade,
    table_no     integer not null,
    unique (queue_id, partition_id)
);
create index queue_part_partition on trunkline.queue_part (partition_id);
create index queue_part_table on trunkline.queue_part (table_no);

-- Pairs of tables that exist, whether a part uses them or not.
create table trunkline.queue_table (
    table_no   integer primary key,
    queue_id   integer not null,             -- may be gone
    created_at timestamptz not null
);

-- A piece of a claim as a reader gets it, and in the last row what else there is to know (queue_next).
create type trunkline.claim_row as (
    part_id integer, partition integer, claim_no bigint, token bigint, attempt integer, deadline_s double precision,
    is_exhausted boolean, offsets int8multirange,
    first_offset bigint, record_count integer, append_time timestamptz, keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[],
    append_times timestamptz[], joined bytea, lengths integer[],
    lost integer[], due_s double precision, is_full boolean);
