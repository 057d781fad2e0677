-- The log: its tables, and nothing that is written per record but the batch itself.

-- One row: which schema this is, whom it serves, and how its locks and its log are told from others.
create table trunkline.meta (
    singleton      boolean primary key default true check (singleton),
    product        text not null check (product = 'trunkline'),
    schema_version integer not null,
    oldest_client  integer not null,      -- the oldest client protocol that this schema serves
    lock_class     integer not null,      -- first integer of our advisory locks, random for each installation
    log_epoch      bigint not null,       -- raised after a restore; positions kept outside carry it
    installed_at   timestamptz not null default pg_catalog.clock_timestamp()
);

create table trunkline.topic (
    topic_id          integer generated always as identity primary key,
    incarnation       bigint not null,    -- a topic made again under its old name is another topic
    name              text collate "C" not null unique,
    partitions        integer not null check (partitions between 1 and 1024),
    open_segment_id   integer not null,   -- where the next publish of each partition goes
    created_at        timestamptz not null,
    retention_age_s   bigint  check (retention_age_s between 1 and 3155760000),
    retention_bytes   bigint  check (retention_bytes >= 0),
    segment_bytes     bigint  not null default 1073741824 check (segment_bytes between 65536 and 68719476736),
    segment_age_s     bigint  not null default 86400 check (segment_age_s between 1 and 315576000),
    record_bytes_max  integer not null default 16777216 check (record_bytes_max between 1 and 67108864),
    batch_bytes_max   integer not null default 67108864 check (batch_bytes_max between 1 and 67108864),
    batch_records_max integer not null default 10000 check (batch_records_max between 1 and 10000),
    key_bytes_max     integer not null default 8192 check (key_bytes_max between 1 and 8192),
    header_count_max  integer not null default 64 check (header_count_max between 0 and 64),
    header_bytes_max  integer not null default 8192 check (header_bytes_max between 1 and 8192)
);

create table trunkline.topic_partition (
    partition_id integer generated always as identity primary key,    -- second integer of the partition's lock
    topic_id     integer not null references trunkline.topic on delete cascade,
    partition    integer not null check (partition between 0 and 1023),
    unique (topic_id, partition)
);

-- The catalogue. A segment is open until every partition has moved on and it is sealed; it is released
-- once the log start has passed it, and its row goes with its table.
create table trunkline.segment (
    segment_id       integer generated always as identity primary key,   -- the table is trunkline.segment_<id>
    topic_id         integer not null,    -- no reference: the tables of a deleted topic outlive it for a moment
    opened_at        timestamptz not null,
    sealed_at        timestamptz,
    last_append_time timestamptz,         -- the three of these are known once it is sealed
    byte_count       bigint,
    keyed            boolean,
    released_at      timestamptz
);
create index segment_topic on trunkline.segment (topic_id, segment_id);

-- Where a partition begins in a segment. The newest row of a partition says where it is written, the oldest
-- unreleased one where its log starts; so the tip survives retention.
create table trunkline.segment_partition (
    partition_id integer not null references trunkline.topic_partition on delete cascade,
    segment_id   integer not null references trunkline.segment on delete cascade,
    first_offset bigint not null check (first_offset >= 1),
    -- Of the batch before: its append time, so that time never runs backwards, and its transaction, which may go on.
    time_floor   timestamptz not null,
    transaction_id bigint,
    transaction_count integer,
    primary key (partition_id, segment_id)
);
create index segment_partition_segment on trunkline.segment_partition (segment_id);

-- Idempotent producers, one row for each partition that one writes to. Batches carry producer_no, which is
-- producer_number of the other three; what a sealed segment knew of a producer's last batch is kept here, written
-- when it is sealed.
create table trunkline.producer (
    producer_no      bigint primary key,
    partition_id     integer not null references trunkline.topic_partition on delete cascade,
    producer_id      uuid not null,
    epoch            integer not null check (epoch >= 0),
    first_segment_id integer not null,
    last_sequence    integer not null default 0,
    last_offset      bigint,
    last_count       integer,
    seen_at          timestamptz not null,
    unique (partition_id, producer_id, epoch)
);

-- A batch as it is read, or a run of batches of one record: then append_times has one for each record, joined has the
-- payloads one after the other and lengths how long each is, and what belongs to a single batch is null.
create type trunkline.batch_row as (
    first_offset bigint, record_count integer, append_time timestamptz, batch_id bigint,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    transaction_id bigint, transaction_ordinal integer, transaction_count integer,
    append_times timestamptz[], joined bytea, lengths integer[], byte_count bigint);

-- One record as people see it.
create type trunkline.record_row as (
    partition integer, "offset" bigint, key bytea, payload bytea, headers jsonb, append_time timestamptz,
    header_names text[], header_values bytea[]);

-- Which roles of the server may do what; empty where the owner alone uses the schema.
create table trunkline.grantee (
    kind      text not null check (kind in ('producer', 'consumer', 'admin')),
    role_name text not null,
    primary key (kind, role_name)
);

insert into trunkline.meta (product, schema_version, oldest_client, lock_class, log_epoch)
values ('trunkline', 1, 1, 1 + pg_catalog.floor(pg_catalog.random() * 2000000000)::integer, 1);
