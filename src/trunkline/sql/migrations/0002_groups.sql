-- Groups: readers that share the work on topics; how far each partition has been read, and who reads it now.

alter table trunkline.topic add column retention_consumed boolean not null default false;
alter table trunkline.topic add column notify_in_commit boolean not null default false;

create table trunkline.reader_group (
    group_id    integer generated always as identity primary key,     -- second integer of the group's lock
    incarnation bigint not null,
    name        text collate "C" not null unique,
    created_at  timestamptz not null
);

-- A group in one partition. What changes stands in group_ledger.
create table trunkline.group_cursor (
    cursor_id    integer generated always as identity primary key,    -- second integer of the cursor's lock
    group_id     integer not null references trunkline.reader_group on delete cascade,
    partition_id integer not null references trunkline.topic_partition on delete cascade,
    unique (group_id, partition_id)
);
create index group_cursor_partition on trunkline.group_cursor (partition_id);

-- Appended, never updated. The newest row of a cursor says where the group goes on, who holds the partition, and in
-- which epoch; taking it, giving it back and seeking raise the epoch. It does not refer to the cursor, which would cost
-- a look at every commit: who deletes a cursor deletes its rows, under its lock.
create table trunkline.group_ledger (
    seq         bigint not null,
    next_offset bigint not null,
    at          timestamptz not null,
    cursor_id   integer not null,
    epoch       integer not null,
    member_id   integer,                 -- null: nobody
    kind        "char" not null check (kind in ('b', 't', 'c', 'r', 's', 'm')),
        -- begun, taken, committed, released, sought, claimed for at most once
    primary key (cursor_id, seq)
);
create index group_ledger_lease on trunkline.group_ledger (at) where kind not in ('c', 'm');

-- How far old rows of a cursor have been taken away, so that the next sweep begins there.
create table trunkline.group_swept (
    cursor_id integer primary key references trunkline.group_cursor on delete cascade,
    seq       bigint not null
);

-- Who reads with whom. session_no is the process: its listening session holds a lock on that number while it lives;
-- behind a pooler, where sessions are not its own, it adds a row to session_beat now and then.
create sequence trunkline.member_session_no as integer;
create table trunkline.group_member (
    member_id  integer generated always as identity primary key,
    group_id   integer not null references trunkline.reader_group on delete cascade,
    session_no integer not null,
    timeout_s  double precision check (timeout_s > 0),    -- null: alive while the session's lock is held
    topic_ids  integer[] not null,
    name       text not null check (length(name) <= 200),
    token      bigint not null unique,   -- chosen by the client: joining twice is joining once
    joined_at  timestamptz not null
);
create index group_member_group on trunkline.group_member (group_id);
create index group_member_session on trunkline.group_member (session_no);
create table trunkline.session_beat (
    session_no integer not null,
    at         timestamptz not null
);
create index session_beat_newest on trunkline.session_beat (session_no, at);
