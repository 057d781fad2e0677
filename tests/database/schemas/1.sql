-- What the first version of the schema installed, as `trunkline db sql` printed it. Never changed: upgrades begin here.
begin;
-- One installer at a time, and only into a schema that is ours, or new, or empty.
set local check_function_bodies = off;
set local client_min_messages = warning;
set local lock_timeout = '30s';
set transaction isolation level read committed;
select pg_catalog.pg_advisory_xact_lock(1953656430, 1);
do $do$
begin
    if to_regnamespace('trunkline') is null then
        create schema trunkline;
    elsif to_regclass('trunkline.meta') is null and exists (
        select from pg_catalog.pg_class c where c.relnamespace = 'trunkline'::regnamespace
        union all
        select from pg_catalog.pg_proc p where p.pronamespace = 'trunkline'::regnamespace) then
        raise exception 'this database has a schema "trunkline" that was not made by Trunkline'
            using errcode = 'TL023', hint = 'rename or drop that schema, or install into another database';
    end if;
end $do$;

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

-- Functions are replaced as a whole: what the older version had and this one has not goes too. Those of segments are
-- made again at the end; who changes them elsewhere holds the topic's lock.
do $do$
declare
    old record;
begin
    if to_regproc('trunkline.topic_lock') is not null then
        perform trunkline.topic_lock(t.topic_id) from trunkline.topic t order by t.topic_id;
    end if;
    for old in select p.oid::regprocedure as signature from pg_catalog.pg_proc p
        where p.pronamespace = 'trunkline'::regnamespace loop
        execute format('drop function %s', old.signature);
    end loop;
end $do$;

-- The only place where time enters. Tests replace it as the owner; no setting or argument changes it.
-- grants: none
create function trunkline.clock_now() returns timestamptz
language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() $$;

-- First integer of our advisory locks: n for partitions, n + 1 for topics (rolls, changes). Chosen at random
-- when the schema is installed, so that an application's own two-integer locks are not met by accident.
-- grants: none
do $do$
begin
    execute format(
        'create function trunkline.lock_class() returns integer language sql immutable parallel safe as %L',
        format('select %s', (select m.lock_class from trunkline.meta m)));
end $do$;

-- Takes a partition's lock for the rest of the transaction. Whoever holds it, and nobody else, may append to
-- the partition or move it to another segment; read what it protects in a later statement.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_partition(partition_id integer) returns void
language plpgsql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class(), lock_partition.partition_id) then
        perform trunkline.lock_wait(trunkline.lock_class(), lock_partition.partition_id);
    end if;
end $$;

-- Waits for a transaction-level lock that somebody else holds, never without a bound: the session's
-- lock_timeout, or ten seconds where the session has none.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.lock_wait(lock_class integer, object integer) returns void
language plpgsql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    bounded constant boolean := current_setting('lock_timeout') <> '0';
begin
    if not bounded then
        perform set_config('lock_timeout', '10s', true);
    end if;
    perform pg_advisory_xact_lock(lock_wait.lock_class, lock_wait.object);
    if not bounded then
        perform set_config('lock_timeout', '0', true);
    end if;
end $$;

-- Whether no value is longer than each_max bytes, and all of them together not longer than total_max.
-- grants: none
create function trunkline.bytes_fit(given bytea[], each_max bigint, total_max bigint default 9223372036854775807)
returns boolean
language sql immutable
as $$ select max(octet_length(v)) <= each_max and sum(octet_length(v)) <= total_max from unnest(given) v $$;

-- Bytes as text where they are UTF-8, else as \x and hexadecimal digits.
-- grants: consumer
create function trunkline.bytes_readable(value bytea) returns text
language plpgsql stable
as $$
begin
    return convert_from(value, 'UTF8');
exception when character_not_in_repertoire or untranslatable_character then
    return value::text;
end $$;

-- Whether flat headers are well formed, one count a record, and within a topic's limits.
-- grants: none
create function trunkline.headers_fit(
    record_count integer, header_counts integer[], header_names text[], header_values bytea[],
    header_count_max integer, header_bytes_max integer) returns boolean
language sql immutable
as $$
    select cardinality(header_counts) = record_count and array_position(header_counts, null) is null
        and coalesce(cardinality(header_names), 0) = coalesce(cardinality(header_values), 0)
        and array_position(header_names, null) is null and array_position(header_values, null) is null
        and (select sum(n) = coalesce(cardinality(header_names), 0) and min(n) >= 0 and max(n) <= header_count_max
             from unnest(header_counts) n)
        and (pg_column_size(header_names) <= header_bytes_max and pg_column_size(header_values) <= header_bytes_max
            or (select max(greatest(octet_length(h.name), octet_length(h.value))) <= header_bytes_max
                from unnest(header_names, header_values) h(name, value)))
$$;

-- Headers as JSON, in their order, repeated names included: [["name", "value"], …].
-- grants: none
create function trunkline.headers_readable(names text[], "values" bytea[]) returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(jsonb_build_array(h.name, trunkline.bytes_readable(h.value)) order by h.n), '[]')
    from unnest(names, "values") with ordinality h(name, value, n)
$$;

-- Appends one batch to each of the given partitions of a topic, in the caller's transaction.
-- The records of partitions[i] are the next counts[i] elements of the arrays. keys is null where no record has
-- one; header_counts, header_names and header_values are null together where no record has any, else flat:
-- record n has the next header_counts[n] names and values.
-- With a producer, sequences[i] is that of partitions[i], one higher than its last; a sequence that is in the log
-- already is answered with its first offset, and nothing is written.
-- expected_partitions is the partition count that keys were routed by, or null.
-- Returns the first offset given out in each partition, the segment that is open, and whether its limit was seen to
-- be passed: then the caller should call segment_roll_if_full, in a transaction of its own.
-- Promise: offsets are gapless, committed and ordered; all of it becomes visible at once or not at all; the
-- commit is flushed even where the session has synchronous_commit off; PREPARE TRANSACTION is refused.
-- locks: each partition, in ascending order, until the transaction ends
-- errors: TL001 TL002 TL004 TL007 TL008 TL009 TL012, 40001 (the tip moved after a REPEATABLE READ snapshot), 55P03
-- grants: producer
create function trunkline.log_append(
    topic_id integer, expected_partitions integer, partitions integer[], counts integer[],
    keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequences integer[],
    out first_offsets bigint[], out open_segment_id integer, out is_full boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    part     record;
    appended bigint[];
    a        integer := 1;    -- the partition's records are elements a to z
    z        integer;
    header_a integer := 1;
    header_z integer;
begin
    if coalesce(cardinality(partitions), 0) = 0 or coalesce(cardinality(counts), 0) <> cardinality(partitions)
        or (producer_id is not null and coalesce(cardinality(sequences), 0) <> cardinality(partitions))
        or (select sum(n) from unnest(counts) n) is distinct from cardinality(payloads)
        or exists (select from unnest(counts) n where n is null or n < 1)
        or cardinality(keys) <> cardinality(payloads) or cardinality(header_counts) <> cardinality(payloads) then
        raise exception 'partitions, counts, sequences and the arrays of records do not fit together'
            using errcode = 'TL001', hint = 'a count for each partition, adding up to the number of payloads';
    elsif exists (select from generate_series(2, cardinality(partitions)) i
            where (partitions[i] > partitions[i - 1]) is not true) then
        raise exception 'partitions must be given once each, in ascending order' using errcode = 'TL001';
    end if;
    for i in 1 .. cardinality(partitions) loop
        select p.partition_id into part from trunkline.topic_partition p
        where p.topic_id = log_append.topic_id and p.partition = log_append.partitions[i];
        if not found then
            perform trunkline.topic_raise_missing(topic_id, partitions[i]);
        end if;
        -- Before the open segment is looked up: while the lock is held it cannot be sealed, so its function stays.
        perform trunkline.lock_partition(part.partition_id);
        select p.partition_id, t.open_segment_id,
            to_regproc('trunkline.segment_' || t.open_segment_id || '_append') is null as is_gone into part
        from trunkline.topic_partition p join trunkline.topic t using (topic_id)
        where p.topic_id = log_append.topic_id and p.partition = log_append.partitions[i];
        if not found then
            perform trunkline.topic_raise_missing(topic_id, partitions[i]);
        elsif part.is_gone then
            -- An old snapshot still names a segment that has been dropped.
            raise exception 'the partition was written after this transaction''s snapshot' using errcode = '40001',
                hint = 'run the transaction again, or publish in READ COMMITTED, which does not meet this';
        end if;
        z := a + counts[i] - 1;
        header_z := header_a - 1 + coalesce((select sum(n) from unnest(header_counts[a:z]) n), 0);
        execute format('select trunkline.%I($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)',
                'segment_' || part.open_segment_id || '_append')
            into appended
            using part.partition_id, expected_partitions, counts[i], keys[a:z], payloads[a:z],
                header_counts[a:z], header_names[header_a:header_z], header_values[header_a:header_z],
                producer_id, producer_epoch, sequences[i];
        first_offsets[i] := appended[1];
        open_segment_id := appended[2];
        is_full := coalesce(is_full, false) or appended[3] = 1;
        a := z + 1;
        header_a := header_z + 1;
    end loop;
end $$;

-- What segment_<id>_append leaves to be looked at closely: checks every argument, says what is wrong, moves the
-- partition to the open segment, registers the producer, finds a repeated sequence; then writes the batch.
-- A caller in REPEATABLE READ or SERIALIZABLE whose snapshot is older than the tip runs into a key that it cannot
-- see; that becomes a serialization failure that says what to do.
-- locks: the partition, until the transaction ends
-- errors: TL001 TL002 TL004 TL007 TL008 TL009 TL012, 40001, 55P03
-- grants: none
create function trunkline.log_append_closely(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer)
returns bigint[]
language plpgsql volatile
as $$
declare
    segment_id   integer;
    first_offset bigint;
begin
    perform trunkline.log_check_shape(record_count, keys, payloads, header_counts, header_names, header_values,
        producer_id, producer_epoch, sequence);
    perform trunkline.log_guard_commit();
    perform trunkline.lock_partition(partition_id);
    begin
        segment_id := trunkline.partition_prepare(partition_id);
        if producer_id is not null then
            -- Before any other refusal: what is in the log already has its place, whatever was changed since.
            first_offset := trunkline.producer_resolve(
                partition_id, segment_id, producer_id, producer_epoch, sequence, record_count);
            if first_offset is not null then
                return array[first_offset, segment_id, 0];
            end if;
        end if;
        perform trunkline.log_check_limits(partition_id, expected_partitions, keys, payloads, header_counts,
            header_names, header_values);
        return trunkline.segment_write(segment_id, partition_id, record_count, keys, payloads, header_counts,
            header_names, header_values, trunkline.producer_number(producer_id, partition_id, producer_epoch), sequence);
    exception when unique_violation or serialization_failure or undefined_table or undefined_function then
        if current_setting('transaction_isolation') = 'read committed' then
            raise;
        end if;
        raise exception 'the partition was written after this transaction''s snapshot'
            using errcode = '40001',
            hint = 'run the transaction again, or publish in READ COMMITTED, which does not meet this';
    end;
end $$;

-- Refuses a batch whose keys were routed by another partition count, or that is over a limit of its topic. Called
-- where a cheap look could not rule it out.
-- errors: TL004 TL012
-- grants: none
create function trunkline.log_check_limits(
    partition_id integer, expected_partitions integer, keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[]) returns void
language plpgsql volatile
as $$
declare
    topic   record;
    largest constant bigint := (select max(octet_length(p)) from unnest(payloads) p);
    total   constant bigint := (select sum(octet_length(p)::bigint) from unnest(payloads) p);
    fault   text;
begin
    select t.* into topic from trunkline.topic t join trunkline.topic_partition p using (topic_id)
    where p.partition_id = log_check_limits.partition_id;
    if topic.partitions <> expected_partitions then
        raise exception 'topic % has % partitions now, not %', topic.name, topic.partitions, expected_partitions
            using errcode = 'TL012', hint = 'look the topic up again and route the keys anew';
    elsif largest > topic.record_bytes_max then
        fault := format('a record of %s bytes is over record_bytes_max = %s', largest, topic.record_bytes_max);
    elsif total > topic.batch_bytes_max then
        fault := format('a batch of %s bytes is over batch_bytes_max = %s', total, topic.batch_bytes_max);
    elsif cardinality(payloads) > topic.batch_records_max then
        fault := format('a batch of %s records is over batch_records_max = %s',
            cardinality(payloads), topic.batch_records_max);
    elsif (select max(octet_length(k)) from unnest(keys) k) > topic.key_bytes_max then
        fault := format('a key of %s bytes is over key_bytes_max = %s',
            (select max(octet_length(k)) from unnest(keys) k), topic.key_bytes_max);
    elsif (select max(n) from unnest(header_counts) n) > topic.header_count_max then
        fault := format('a record with %s headers is over header_count_max = %s',
            (select max(n) from unnest(header_counts) n), topic.header_count_max);
    elsif (select max(greatest(octet_length(n), octet_length(v)))
            from unnest(header_names, header_values) h(n, v)) > topic.header_bytes_max then
        fault := format('a header of %s bytes is over header_bytes_max = %s',
            (select max(greatest(octet_length(n), octet_length(v)))
             from unnest(header_names, header_values) h(n, v)), topic.header_bytes_max);
    end if;
    if fault is not null then
        raise exception '%', fault using errcode = 'TL004', hint = 'nothing was written; split it, or alter the topic';
    end if;
end $$;

-- Proves that a position kept outside the database still stands in the log it was taken from.
-- Its record before is there with the same batch id: go on. Another batch id, or beyond the tip: the log was
-- restored, or a replica that lagged took over. Dropped by retention: the log epoch decides, which
-- `trunkline db after-restore` raises.
-- errors: TL006; TL002 for a topic made again; TL005 where the position itself is gone
-- grants: consumer
create function trunkline.log_check_pin(
    topic_id integer, partition integer, at_offset bigint, incarnation bigint, batch_id bigint, log_epoch bigint)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    valid record;
    now_is record;
    fault text;
    found_batch bigint;
begin
    select t.name, t.incarnation, m.log_epoch into now_is from trunkline.topic t, trunkline.meta m
    where t.topic_id = log_check_pin.topic_id;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    elsif now_is.incarnation is distinct from log_check_pin.incarnation then
        raise exception 'topic % was deleted and created again since this position was taken', now_is.name
            using errcode = 'TL002', hint = 'start the reader anew: this is another topic under the same name';
    end if;
    select r."start", r."end" into valid from trunkline.log_range(topic_id, partition) r;
    if at_offset is null or at_offset < 1 then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    elsif at_offset > valid."end" then
        fault := format('offset %s is beyond the end, %s', at_offset, valid."end");
    elsif batch_id is not null and at_offset > valid."start" then
        select b.batch_id into found_batch from trunkline.log_read(topic_id, partition, at_offset - 1, 1, 1) b;
        if found_batch <> log_check_pin.batch_id then
            fault := format('offset %s holds another record than the one that was read', at_offset - 1);
        end if;
    elsif log_epoch is distinct from now_is.log_epoch then
        fault := format('its records were taken in log epoch %s, and this is epoch %s', log_epoch, now_is.log_epoch);
    end if;
    if fault is not null then
        raise exception 'the log of topic %, partition %, is not the one this position was taken from: %',
            now_is.name, partition, fault using errcode = 'TL006',
            hint = 'the database was restored, or a lagging replica took over; compare what was read, then start anew';
    elsif at_offset < valid."start" then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    end if;
end $$;

-- Refuses arguments of an append that do not fit together.
-- errors: TL001
-- grants: none
create function trunkline.log_check_shape(
    record_count integer, keys bytea[], payloads bytea[],
    header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer) returns void
language plpgsql immutable
as $$
declare
    fault text;
begin
    if coalesce(cardinality(payloads), 0) = 0 or array_ndims(payloads) <> 1 or array_lower(payloads, 1) <> 1 then
        fault := 'payloads must be a one-dimensional array of at least one element';
    elsif array_position(payloads, null) is not null then
        fault := format('payload %s is null', array_position(payloads, null));
    elsif record_count is distinct from cardinality(payloads) then
        fault := format('the count says %s records, payloads hold %s', coalesce(record_count::text, 'null'),
            cardinality(payloads));
    elsif cardinality(keys) <> cardinality(payloads) or array_ndims(keys) <> 1 or array_lower(keys, 1) <> 1 then
        fault := 'keys must be null or as many as payloads';
    elsif producer_id is not null and (producer_epoch >= 0 and sequence > 0) is not true then
        fault := 'a producer needs an epoch of at least 0 and a sequence of at least 1';
    elsif header_counts is null and (header_names is not null or header_values is not null) then
        fault := 'header names and values need header_counts';
    elsif header_counts is not null
        and trunkline.headers_fit(record_count, header_counts, header_names, header_values, 2147483647, 2147483647)
            is not true then
        fault := 'header_counts must name every record, and add up to the number of header names and values';
    end if;
    if fault is not null then
        raise exception '%', fault using errcode = 'TL001', hint = 'nothing was written; log_append says what fits';
    end if;
end $$;

-- Makes sure that the transaction ends in a flushed commit or not at all.
-- A prepared transaction would keep the partition's lock for ever: Postgres refuses to prepare one that has a
-- LISTEN pending, and the pair leaves nothing behind. An asynchronous commit could be lost after it was
-- acknowledged, so a session that asks for that does not get it for this transaction.
-- grants: none
create function trunkline.log_guard_commit() returns void
language plpgsql volatile
as $$
begin
    if current_setting('max_prepared_transactions') <> '0' then
        listen trunkline_append;
        unlisten trunkline_append;
    end if;
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- The first offset that was appended at or after a time; the end of the log where none was. Append times never
-- run backwards in offset order, so this is a binary search along the primary key.
-- errors: TL001 TL002, 40001 where a REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_offset_at(topic_id integer, partition integer, "time" timestamptz) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    low     bigint;
    high    bigint;
    middle  bigint;
    segment integer;
    batch   record;
begin
    if "time" is null then
        raise exception 'time must not be null' using errcode = 'TL001';
    end if;
    select r."start", r."end" into low, high from trunkline.log_range(topic_id, partition) r;
    -- The answer is in [low, high]: everything before low is older, everything from high on is not.
    while low < high loop
        middle := low + (high - low) / 2;
        begin
            segment := (trunkline.log_place(topic_id, partition, middle)).segment_id;
            execute format('select b.first_offset, b.record_count, b.append_time from trunkline.%I b
                where b.partition = $1 and b.first_offset <= $2 order by b.first_offset desc limit 1',
                'segment_' || segment) into batch using partition, middle;
        exception when sqlstate 'TL005' or undefined_table then
            if current_setting('transaction_isolation') <> 'read committed' then
                raise exception 'records of this transaction''s snapshot have been dropped by retention'
                    using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';
            end if;
            -- Retention passed by: the log starts later now.
            select r."start", r."end" into low, high from trunkline.log_range(topic_id, partition) r;
            continue;
        end;
        if batch.append_time >= "time" then
            high := greatest(batch.first_offset, low);
        else
            low := batch.first_offset + batch.record_count;
        end if;
    end loop;
    return low;
end $$;

-- What a position must carry to be kept outside the database: the topic's incarnation, the id of the batch that
-- holds the record before it (null at offset 1, or where retention has dropped that record), and the log epoch.
-- errors: TL002, TL005 where at_offset is outside [start, end]
-- grants: consumer
create function trunkline.log_pin(
    topic_id integer, partition integer, at_offset bigint,
    out incarnation bigint, out batch_id bigint, out log_epoch bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    valid record;
begin
    select r."start", r."end" into valid from trunkline.log_range(topic_id, partition) r;
    if at_offset is null or at_offset not between valid."start" and valid."end" then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    end if;
    select t.incarnation, m.log_epoch into incarnation, log_epoch from trunkline.topic t, trunkline.meta m
    where t.topic_id = log_pin.topic_id;
    if at_offset > valid."start" then
        select b.batch_id into batch_id
        from trunkline.log_read(topic_id, partition, at_offset - 1, 1, 1) b;
    end if;
end $$;

-- The segment in which a partition's offset stands, or will stand; where the partition begins in it, and where in the
-- next one (null in the newest).
-- errors: TL001 TL002, TL005 where the offset lies before the log
-- grants: none
create function trunkline.log_place(
    topic_id integer, partition integer, at_offset bigint,
    out segment_id integer, out first_offset bigint, out next_first bigint)
language plpgsql volatile
as $$
begin
    select sp.segment_id, sp.first_offset, (
        select n.first_offset from trunkline.segment_partition n
        where n.partition_id = p.partition_id and n.segment_id > sp.segment_id order by n.segment_id limit 1)
    into segment_id, first_offset, next_first
    from trunkline.topic_partition p left join lateral (
        select x.segment_id, x.first_offset
        from trunkline.segment_partition x join trunkline.segment s on s.segment_id = x.segment_id
        where x.partition_id = p.partition_id and x.first_offset <= at_offset and s.released_at is null
        order by x.segment_id desc limit 1) sp on true
    where p.topic_id = log_place.topic_id and p.partition = log_place.partition;
    if not found then
        perform trunkline.topic_raise_missing(topic_id, partition);
    elsif at_offset is null then
        raise exception 'the offset must not be null' using errcode = 'TL001';
    elsif segment_id is null then
        perform trunkline.log_raise_outside(topic_id, partition, at_offset);
    end if;
end $$;

-- Publishes one record, from psql or any language, in the caller's transaction:
--     select * from trunkline.log_publish('orders', 'hello', key => '42', headers => '{"source": "web"}');
-- headers: an object of text values, or an array of [name, value] pairs where a name repeats. The partition is the
-- key's, else the given one, else any. Holds the partition's lock until the transaction ends, so end it soon.
-- locks, errors: as log_append
-- grants: producer
create function trunkline.log_publish(
    topic text, payload bytea, key bytea default null, headers jsonb default null, partition integer default null,
    out at_partition integer, out at_offset bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id     constant integer := trunkline.topic_id_of(topic);
    pairs  jsonb := headers;
    counts integer[];
    names  text[];
    texts  text[];
    n      constant integer := (select t.partitions from trunkline.topic t where t.topic_id = id);
begin
    at_partition := coalesce(partition,
        case when key is not null then trunkline.partition_of_key(key, n) else floor(random() * n)::integer end);
    if jsonb_typeof(headers) = 'object' then
        pairs := (select coalesce(jsonb_agg(jsonb_build_array(e.key, e.value)), '[]') from jsonb_each(headers) e);
    end if;
    if headers is not null then
        if jsonb_typeof(pairs) <> 'array' or exists (
            select from jsonb_array_elements(pairs) p where jsonb_typeof(p) <> 'array' or jsonb_array_length(p) <> 2
                or jsonb_typeof(p -> 0) <> 'string' or jsonb_typeof(p -> 1) <> 'string') then
            raise exception 'headers must be an object of strings, or an array of [name, value] pairs of strings'
                using errcode = 'TL001';
        end if;
        select array_agg(p.pair ->> 0 order by p.n), array_agg(p.pair ->> 1 order by p.n), array[count(*)::integer]
        into names, texts, counts from jsonb_array_elements(pairs) with ordinality p(pair, n);
    end if;
    select a.first_offsets[1] into at_offset from trunkline.log_append(id,
        case when key is not null and partition is null then n end, array[at_partition], array[1],
        case when key is not null then array[key] end, array[payload],
        counts, names, (select array_agg(convert_to(t.v, 'UTF8') order by t.n) from unnest(texts) with ordinality t(v, n)),
        null, null, null) a;
end $$;

-- Says that the log has a gap, which must never happen.
-- errors: TL011, always
-- grants: none
create function trunkline.log_raise_gap(segment_id integer, partition integer, at_offset bigint) returns void
language plpgsql immutable
as $$
begin
    raise exception 'segment % has a gap in partition % at or after offset %', segment_id, partition, at_offset
        using errcode = 'TL011', hint = 'this must never happen; please report it';
end $$;

-- Says that an offset lies outside the log, and which range is valid (also as the detail, for programs).
-- errors: TL005, always
-- grants: none
create function trunkline.log_raise_outside(topic_id integer, partition integer, at_offset bigint) returns void
language plpgsql volatile
as $$
declare
    valid record;
begin
    select r."start", r."end" into valid from trunkline.log_range(topic_id, partition) r;
    raise exception 'offset % is outside partition % of topic %, which holds [%, %)', at_offset, partition,
        (select t.name from trunkline.topic t where t.topic_id = log_raise_outside.topic_id), valid."start", valid."end"
        using errcode = 'TL005', detail = format('[%s, %s)', valid."start", valid."end"),
        hint = case when at_offset < valid."start" then 'retention has dropped it; go on at the start, or keep records longer'
            else 'it has not been written; the end is the next offset to be given out' end;
end $$;

-- The log of each partition of a topic as the half-open range ["start", "end"), or of the given partition.
-- A subtraction and an index step a partition, never a scan; writes nothing.
-- errors: TL002
-- grants: producer, consumer, admin
create function trunkline.log_range(topic_id integer, only_partition integer default null)
returns table (partition integer, "start" bigint, "end" bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    place record;
    any_found boolean := false;
begin
    for place in
        select last.segment_id, array_agg(p.partition) as partitions, array_agg(first.first_offset) as starts,
            array_agg(last.first_offset) as floors
        from trunkline.topic_partition p, lateral (
            select sp.first_offset from trunkline.segment_partition sp join trunkline.segment s using (segment_id)
            where sp.partition_id = p.partition_id and s.released_at is null order by sp.segment_id limit 1) first,
        lateral (
            select sp.segment_id, sp.first_offset from trunkline.segment_partition sp
            where sp.partition_id = p.partition_id order by sp.segment_id desc limit 1) last
        where p.topic_id = log_range.topic_id and (only_partition is null or p.partition = only_partition)
        group by last.segment_id
    loop
        any_found := true;
        return query execute format(
            'select u.p, u.s, coalesce(x.next_offset, u.f)
             from unnest($1, $2, $3) u(p, s, f) left join lateral (
                 select b.first_offset + b.record_count as next_offset from trunkline.%I b
                 where b.partition = u.p order by b.first_offset desc limit 1) x on true
             order by 1', 'segment_' || place.segment_id)
            using place.partitions, place.starts, place.floors;
    end loop;
    if not any_found then
        perform trunkline.topic_raise_missing(topic_id, only_partition);
    end if;
end $$;

-- Reads whole batches of one partition, from the one that holds `start` on, in order and without a gap, until
-- max_records or bytes_max is reached. A batch that would pass bytes_max is left for the next call; the first one
-- comes always.
-- With merge_small, a run of many batches of one record comes as one row: first_offset and record_count are of the run,
-- append_times, joined and lengths have the records' times and payloads, and what belongs to one batch alone is null.
-- Returns no row where start is the end of the log. Writes nothing, and takes no lock that a publisher needs.
-- errors: TL001 TL002, TL005 outside the log (detail: the valid range, "[start, end)"), TL011, 40001 where a
--     REPEATABLE READ snapshot is older than a drop
-- grants: consumer
create function trunkline.log_read(
    topic_id integer, partition integer, start bigint, max_records integer, bytes_max bigint,
    merge_small boolean default false)
returns setof trunkline.batch_row
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    stop      bigint;             -- the first offset that is not asked for
    place     record;
    following record;
    batch     trunkline.batch_row;
    here      bigint := start;    -- the next offset to return
    bytes     bigint := bytes_max;
    reached   bigint;             -- how far the segment is known to go
    ended     boolean;            -- whether the segment goes no further
    single    bigint;             -- the size of a batch of one record with which a run may begin
    most      integer;            -- and how many records it may have
    before    bigint;
    may_merge boolean := coalesce(merge_small, false);
begin
    if max_records is null or max_records < 1 or bytes_max is null or bytes_max < 1 then
        raise exception 'max_records and bytes_max must be at least 1' using errcode = 'TL001';
    end if;
    stop := least(start, 9223372036854775807 - max_records) + max_records;
    place := trunkline.log_place(topic_id, partition, start);
    loop
        reached := null;
        ended := false;
        single := null;
        begin
            -- From the batch that holds the offset, or ends before it, on. Arrays come as they lie in the table, most of
            -- them as references; what is not returned is never fetched.
            for batch in execute format(
                'select b.first_offset, b.record_count, b.append_time, b.batch_id, b.keys, b.payloads,
                     b.header_counts, b.header_names, b.header_values,
                     b.transaction_id, b.transaction_ordinal, b.transaction_count,
                     null::timestamptz[], null::bytea, null::integer[], b.byte_count::bigint
                 from trunkline.%1$I b
                 where b.partition = $1 and b.first_offset < $3 and b.first_offset >= coalesce((
                     select x.first_offset from trunkline.%1$I x
                     where x.partition = $1 and x.first_offset <= $2 order by x.first_offset desc limit 1), $2)
                 order by b.first_offset', 'segment_' || place.segment_id) using partition, here, stop loop
                if batch.first_offset <> reached or batch.first_offset > here then
                    perform trunkline.log_raise_gap(place.segment_id, partition, coalesce(reached, here));
                end if;
                reached := batch.first_offset + batch.record_count;
                if batch.record_count = 0 then
                    ended := true;
                elsif reached > here then
                    if here > start and batch.byte_count > bytes then
                        return;
                    elsif may_merge and batch.record_count = 1 and batch.byte_count < 2048 then
                        single := batch.byte_count;
                        exit;
                    end if;
                    return next batch;
                    here := reached;
                    bytes := bytes - batch.byte_count;
                end if;
            end loop;
        exception when undefined_table then
            -- Dropped after the catalogue was read: what it says now is an error, or a shorter answer.
            if here > start then
                return;
            end if;
            perform trunkline.log_place(topic_id, partition, start);
            raise exception 'records of this transaction''s snapshot have been dropped by retention'
                using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';
        end;
        before := here;
        while single is not null loop
            most := least(stop - here, bytes / greatest(single * 4, 2048), 1024);
            batch := trunkline.segment_merge(place.segment_id, partition, here, most, greatest(single * 4, 2048));
            exit when batch.record_count is null;
            return next batch;
            here := here + batch.record_count;
            bytes := bytes - batch.byte_count;
            exit when batch.record_count < most;
        end loop;
        if here > start and (here >= stop or bytes <= 0) then
            return;
        elsif single is not null then
            -- Not tried again where nothing came of it: between other batches each attempt would cost a statement.
            may_merge := here > before;
            continue;
        elsif coalesce(reached, place.first_offset) < here then
            perform trunkline.log_raise_outside(topic_id, partition, start);
        elsif not ended then
            -- A partition that has moved on leaves a closing row, in the transaction that says so.
            if place.next_first is not null then
                perform trunkline.log_raise_gap(place.segment_id, partition, here);
            end if;
            return;
        end if;
        following := trunkline.log_place(topic_id, partition, here);
        if following.segment_id = place.segment_id or following.first_offset <> here then
            perform trunkline.log_raise_gap(place.segment_id, partition, here);
        end if;
        place := following;
    end loop;
end $$;

-- One row a record, of one partition, at most max_records: what records shows.
-- errors: TL002 TL005
-- grants: none
create function trunkline.log_records(topic_id integer, partition integer, start bigint, max_records integer)
returns setof trunkline.record_row
language plpgsql volatile
as $$
declare
    wanted bigint := max_records;
    here   bigint := start;
    batch  record;
    got    boolean;
begin
    while wanted > 0 loop
        got := false;
        for batch in select * from trunkline.log_read(topic_id, partition, here,
                least(wanted, 10000)::integer, 8388608) loop
            return query
                select partition, batch.first_offset + u.n - 1, batch.keys[u.n], u.payload,
                    trunkline.headers_readable(h.names, h.values), batch.append_time, h.names, h.values
                from unnest(batch.payloads) with ordinality u(payload, n)
                left join lateral (
                    select batch.header_names[before.k + 1 : before.k + batch.header_counts[u.n]] as names,
                        batch.header_values[before.k + 1 : before.k + batch.header_counts[u.n]] as values
                    from (select coalesce(sum(c), 0)::integer as k from unnest(batch.header_counts[1:u.n - 1]) c) before
                    where batch.header_counts is not null) h on true
                where batch.first_offset + u.n - 1 >= here
                order by u.n limit wanted;
            wanted := wanted - (batch.first_offset + batch.record_count - here);
            here := batch.first_offset + batch.record_count;
            got := true;
        end loop;
        exit when not got;
    end loop;
end $$;

-- A topic as one row a record, for people and for joins:
--     select r.offset, r.key, r.payload from trunkline.records('orders', 0) r;
-- From offset `start` on (default: the start of the log), or from the first record appended at or after `since`;
-- of every partition, or of one. At most max_records rows of each partition; without it 1,000, with a notice where
-- there are more. headers is readable JSON ([["name", "value"], …], a value that is not UTF-8 as \x…); names and
-- values stand beside it as they are.
-- errors: TL001 TL002 TL005
-- grants: consumer
create function trunkline.records(
    topic text, partition integer default null, start bigint default null, max_records integer default null,
    since timestamptz default null)
returns setof trunkline.record_row
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id    constant integer := trunkline.topic_id_of(topic);
    part  record;
    first bigint;
    bound constant integer := coalesce(max_records, 1000);
begin
    if bound < 1 then
        raise exception 'max_records must be at least 1' using errcode = 'TL001';
    elsif start is not null and since is not null then
        raise exception 'give start or since, not both' using errcode = 'TL001';
    end if;
    for part in select r.* from trunkline.log_range(id, partition) r loop
        first := coalesce(start, part."start");
        if since is not null then
            first := trunkline.log_offset_at(id, part.partition, since);
        end if;
        if max_records is null and part."end" - first > bound then
            raise notice 'partition % has % records from offset % on; the first % are shown',
                part.partition, part."end" - first, first, bound using hint = 'give max_records for more';
        end if;
        return query select x.* from trunkline.log_records(id, part.partition, first, bound) x;
    end loop;
end $$;

-- Closes a partition in the segment where it is written, so that nothing more can be appended to it there. The closing
-- row (no records, first_offset = the end) is what an append with an old snapshot collides with, and what one that
-- waited for the lock finds. Returns where the next batch will stand, and what it has to know of the one before.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.partition_close(partition_id integer, partition integer,
    out first_offset bigint, out time_floor timestamptz, out transaction_id bigint, out transaction_count integer)
language plpgsql volatile
as $$
declare
    old record;
begin
    select sp.segment_id, sp.first_offset, sp.time_floor, sp.transaction_id, sp.transaction_count into strict old
    from trunkline.segment_partition sp
    where sp.partition_id = partition_close.partition_id order by sp.segment_id desc limit 1;
    if to_regclass('trunkline.segment_' || old.segment_id) is null then
        return;    -- Damaged; a topic can be deleted all the same.
    end if;
    execute format(
        'select b.first_offset + b.record_count, b.append_time, b.transaction_id, b.transaction_count
         from trunkline.%I b where b.partition = $1 order by b.first_offset desc limit 1',
        'segment_' || old.segment_id) into first_offset, time_floor, transaction_id, transaction_count
        using partition;
    if first_offset is null then
        first_offset := old.first_offset;
        time_floor := old.time_floor;
        transaction_id := old.transaction_id;
        transaction_count := old.transaction_count;
    end if;
    execute format(
        'insert into trunkline.%I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
             transaction_ordinal, transaction_count, byte_count, payloads)
         values ($1, $2, 0, 0, $3, 0, 0, 0, 0, ''{}'')', 'segment_' || old.segment_id)
        using first_offset, time_floor, partition;
end $$;

-- Adds the partitions `first` to `last` of a topic, each beginning at offset 1 of the open segment.
-- Their ids ascend with their numbers: sorted by number is sorted by lock.
-- grants: none
create function trunkline.partition_create(topic_id integer, first integer, last integer) returns void
language plpgsql volatile
as $$
begin
    insert into trunkline.topic_partition (topic_id, partition)
    select partition_create.topic_id, n from generate_series(first, last) n order by n;
    insert into trunkline.segment_partition (partition_id, segment_id, first_offset, time_floor)
    select p.partition_id, t.open_segment_id, 1, '-infinity'
    from trunkline.topic_partition p join trunkline.topic t using (topic_id)
    where p.topic_id = partition_create.topic_id and p.partition >= partition_create.first;
end $$;

-- Moves a partition to a newer segment: closes the older one behind it, and says where it begins there.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.partition_move(
    partition_id integer, partition integer, segment_id integer) returns void
language plpgsql volatile
as $$
begin
    insert into trunkline.segment_partition
        (partition_id, segment_id, first_offset, time_floor, transaction_id, transaction_count)
    select partition_move.partition_id, partition_move.segment_id, c.first_offset, c.time_floor, c.transaction_id,
        c.transaction_count
    from trunkline.partition_close(partition_move.partition_id, partition_move.partition) c;
end $$;

-- The partition of a key: Kafka's murmur2, its sign bit cleared, modulo the partition count. The same in Python.
-- errors: TL001
-- grants: producer, consumer
create function trunkline.partition_of_key(key bytea, partitions integer) returns integer
language plpgsql immutable parallel safe
as $$
declare
    m       constant bigint := 1540483477;
    mask    constant bigint := 4294967295;
    length  constant integer := octet_length(key);
    h       bigint;
    k       bigint;
    i       integer := 0;
begin
    if key is null or partitions is null or partitions < 1 then
        raise exception 'a key and a positive partition count are needed' using errcode = 'TL001';
    end if;
    h := (2538058380 # length) & mask;
    while length - i >= 4 loop
        k := get_byte(key, i) | (get_byte(key, i + 1) << 8) | (get_byte(key, i + 2) << 16)
            | (get_byte(key, i + 3)::bigint << 24);
        k := (k * m) & mask;
        k := k # (k >> 24);
        k := (k * m) & mask;
        h := ((h * m) & mask) # k;
        i := i + 4;
    end loop;
    if i < length then
        if length - i >= 3 then
            h := h # (get_byte(key, i + 2) << 16);
        end if;
        if length - i >= 2 then
            h := h # (get_byte(key, i + 1) << 8);
        end if;
        h := ((h # get_byte(key, i)) * m) & mask;
    end if;
    h := h # (h >> 13);
    h := (h * m) & mask;
    h := h # (h >> 15);
    return ((h & 2147483647) % partitions)::integer;
end $$;

-- Sees to it that a partition is in its topic's open segment, and returns that segment.
-- locks: none; the caller holds the partition's lock
-- errors: TL002 a partition that is gone
-- grants: none
create function trunkline.partition_prepare(partition_id integer) returns integer
language plpgsql volatile
as $$
declare
    place record;
begin
    select t.open_segment_id, p.partition, sp.first_offset into place
    from trunkline.topic_partition p join trunkline.topic t using (topic_id)
    left join trunkline.segment_partition sp
        on sp.partition_id = p.partition_id and sp.segment_id = t.open_segment_id
    where p.partition_id = partition_prepare.partition_id;
    if not found then
        raise exception 'the topic was deleted' using errcode = 'TL002',
            hint = 'create it with topic_create or `trunkline topic create`';
    elsif place.first_offset is null then
        perform trunkline.partition_move(partition_id, place.partition, place.open_segment_id);
    end if;
    return place.open_segment_id;
end $$;

-- Forgets producers that have not published for a day, at most `limit_count` in one call. Returns how many rows
-- it looked at; call it again while that is limit_count.
-- A producer that has a batch in a segment that is not sealed yet is kept: there its batches alone prove its sequence,
-- and whether a newer epoch fences it off must be known as long.
-- locks: the partitions concerned, in ascending order
-- grants: admin
create function trunkline.producer_expire(limit_count integer default 100) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    before  constant timestamptz := trunkline.clock_now() - interval '1 day';
    stale   record;
    is_kept boolean;
    looked  integer := 0;
    open_id integer;
begin
    for stale in select r.producer_no, r.partition_id, p.topic_id
        from trunkline.producer r join trunkline.topic_partition p using (partition_id)
        where r.seen_at < before order by r.partition_id limit limit_count loop
        perform trunkline.lock_partition(stale.partition_id);
        looked := looked + 1;
        is_kept := false;
        for open_id in select s.segment_id from trunkline.segment s
            where s.topic_id = stale.topic_id and s.sealed_at is null and s.released_at is null
            order by s.segment_id desc loop
            execute format('select exists (select from trunkline.%I b where b.producer_no = $1)', 'segment_' || open_id)
                into is_kept using stale.producer_no;
            exit when is_kept;
        end loop;
        if is_kept then
            update trunkline.producer r set seen_at = trunkline.clock_now() where r.producer_no = stale.producer_no;
        else
            delete from trunkline.producer r where r.producer_no = stale.producer_no and r.seen_at < before;
        end if;
    end loop;
    return looked;
end $$;

-- The number under which a producer's batches stand in one partition in one epoch: 64 bits of hash, so that no table
-- has to be asked for it, and so many that two random ids do not meet. Where they did, registering the second fails.
-- grants: none
create function trunkline.producer_number(producer_id uuid, partition_id integer, epoch integer) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.uuid_hash_extended(producer_id, (partition_id::bigint << 32) | epoch) $$;

-- Finds out what a producer's sequence means in a partition. In the log already: first_offset is where. The next
-- one: null (a producer that is not known is registered with its first sequence).
-- Asks every segment that is not sealed, and what sealed ones left behind.
-- locks: none; the caller holds the partition's lock
-- errors: TL001 the same sequence with another number of records; TL007 an older epoch than one seen; TL008 a gap,
--     or too old to be proven; TL009 a sequence after the first of a producer that is not known
-- grants: none
create function trunkline.producer_resolve(
    partition_id integer, segment_id integer, producer_id uuid, epoch integer, sequence integer,
    record_count integer, out first_offset bigint)
language plpgsql volatile
as $$
declare
    known       record;
    found_count integer;
    known_last  integer;
    newest      integer;
    open_id     integer;
begin
    -- One statement for both: between two, a segment could be sealed and be missed by either.
    select r.producer_no, r.epoch, r.last_sequence, r.last_offset, r.last_count, array(
        select s.segment_id from trunkline.segment s
        where s.topic_id = p.topic_id and s.segment_id >= r.first_segment_id and s.sealed_at is null
        order by s.segment_id desc) as open_segments
    into known
    from trunkline.producer r join trunkline.topic_partition p on p.partition_id = r.partition_id
    where r.partition_id = producer_resolve.partition_id and r.producer_id = producer_resolve.producer_id
    order by r.epoch desc limit 1;
    if known.epoch > producer_resolve.epoch then
        raise exception 'producer % has published in epoch %, after epoch %', producer_id, known.epoch, epoch
            using errcode = 'TL007', hint = 'another client took over this producer id; connect anew';
    elsif known.epoch is distinct from producer_resolve.epoch then
        if sequence <> 1 then
            raise exception 'producer % in epoch % is not known here, and % is not its first sequence',
                producer_id, epoch, sequence using errcode = 'TL009',
                hint = 'producers are forgotten a day after their last publish; start a new epoch at sequence 1';
        end if;
        insert into trunkline.producer (producer_no, partition_id, producer_id, epoch, first_segment_id, seen_at)
        values (trunkline.producer_number(producer_id, partition_id, epoch), producer_resolve.partition_id,
            producer_resolve.producer_id, producer_resolve.epoch, producer_resolve.segment_id, trunkline.clock_now());
        return;
    end if;

    known_last := known.last_sequence;
    if sequence = known.last_sequence then
        first_offset := known.last_offset;
        found_count := known.last_count;
    end if;
    foreach open_id in array known.open_segments loop
        exit when first_offset is not null;
        execute format(
            'select (select b.producer_sequence from trunkline.%1$I b where b.producer_no = $1
                     order by b.producer_sequence desc limit 1),
                    x.first_offset, x.record_count
             from (values (1)) one left join lateral (
                 select b.first_offset, b.record_count from trunkline.%1$I b
                 where b.producer_no = $1 and b.producer_sequence = $2) x on true', 'segment_' || open_id)
            into newest, first_offset, found_count using known.producer_no, sequence;
        known_last := greatest(known_last, newest);
    end loop;
    if first_offset is null and sequence - 1 <> known_last then
        raise exception 'sequence % of producer % cannot follow %', sequence, producer_id, known_last
            using errcode = 'TL008',
            hint = case when sequence > known_last then 'a batch between them was lost'
                else 'it is too old to tell whether it was written' end;
    elsif first_offset is not null and found_count <> record_count then
        raise exception 'sequence % of producer % was written with % records, and comes again with %',
            sequence, producer_id, found_count, record_count using errcode = 'TL001',
            hint = 'a retry must repeat the batch as it was';
    end if;
end $$;

-- What maintenance has to do for one topic, or for all of them, in the order in which to do it:
-- 'roll' an open segment that is full, 'seal' one that is no longer open, 'drop' one that is released.
-- Each is one call (segment_roll, segment_seal, segment_drop) in a transaction of its own; between seal and drop
-- call retention_release.
-- grants: admin
create function trunkline.retention_due(topic text default null)
returns table (action text, segment_id integer, topic_id integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    only_id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select x.action, x.segment_id, x.topic_id from (
            select case
                    when s.released_at is not null then 'drop'
                    when t.open_segment_id = s.segment_id then 'roll'
                    else 'seal' end as action, s.segment_id, s.topic_id, t.open_segment_id
            from trunkline.segment s left join trunkline.topic t on t.topic_id = s.topic_id
            where (only_id is null or s.topic_id = only_id)
                and (s.released_at is not null or s.sealed_at is null)) x
        where x.action <> 'roll' or trunkline.segment_is_full(x.segment_id)
        order by array_position(array['roll', 'seal', 'drop'], x.action), x.segment_id;
end $$;

-- Moves the log start of a topic past the sealed segments that its retention no longer keeps: those whose newest
-- record is older than retention_age_s, and the oldest ones while all of them together are over retention_bytes.
-- A segment goes only after every older one. Returns what was released; drop each with segment_drop after this
-- transaction has committed.
-- locks: the topic
-- errors: TL002, 55P03
-- grants: admin
create function trunkline.retention_release(topic_id integer)
returns table (segment_id integer, reason text, record_count bigint, byte_count bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    topic   record;
    segment record;
    total   bigint;
begin
    perform trunkline.topic_lock(topic_id);
    select t.retention_age_s, t.retention_bytes into topic
    from trunkline.topic t where t.topic_id = retention_release.topic_id;
    if not found then
        return;
    end if;
    select sum(coalesce(s.byte_count, pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id))))
    into total from trunkline.segment s where s.topic_id = retention_release.topic_id and s.released_at is null;
    for segment in select s.segment_id, s.last_append_time, s.byte_count, s.sealed_at
        from trunkline.segment s
        where s.topic_id = retention_release.topic_id and s.released_at is null order by s.segment_id loop
        exit when segment.sealed_at is null;
        reason := case
            when coalesce(segment.last_append_time, segment.sealed_at)
                < trunkline.clock_now() - topic.retention_age_s * interval '1 second' then 'age'
            when total > topic.retention_bytes then 'bytes' end;
        exit when reason is null;
        segment_id := segment.segment_id;
        byte_count := segment.byte_count;
        record_count := (
            select sum(n.first_offset - sp.first_offset) from trunkline.segment_partition sp, lateral (
                select x.first_offset from trunkline.segment_partition x
                where x.partition_id = sp.partition_id and x.segment_id > sp.segment_id
                order by x.segment_id limit 1) n
            where sp.segment_id = segment.segment_id);
        update trunkline.segment s set released_at = trunkline.clock_now()
        where s.segment_id = segment.segment_id;
        total := total - segment.byte_count;
        return next;
    end loop;
end $$;

-- 64 random bits. For identity, not for secrets.
-- grants: none
create function trunkline.random_bigint() returns bigint
language sql volatile
as $$ select ((pg_catalog.random() * 4294967296)::bigint << 32) | (pg_catalog.random() * 4294967295)::bigint $$;

-- Creates a role that cannot log in, unless it exists. Roles belong to the whole server, so another database may
-- be making the same one now.
-- errors: 42501 where this user may not create roles
-- grants: none
create function trunkline.role_ensure(role_name text) returns void
language plpgsql volatile
as $$
begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
        execute format('create role %I nologin', role_name);
    end if;
exception when duplicate_object or unique_violation then
    null;    -- made by somebody else in the meantime, which is as good
end $$;

-- Lets a role of the server use the schema as a producer, consumer or admin: the named functions, and what is made
-- later for that kind.
-- errors: TL002 for a role that does not exist
-- grants: none
create function trunkline.role_grant(kind text, role_name text, functions text[]) returns void
language plpgsql volatile
as $$
declare
    signature regprocedure;
begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
        raise exception 'role % does not exist', role_name using errcode = 'TL002',
            hint = 'create it first, or install with --roles create or --roles none';
    end if;
    insert into trunkline.grantee (kind, role_name) values (role_grant.kind, role_grant.role_name)
    on conflict do nothing;
    execute format('grant usage on schema trunkline to %I', role_name);
    for signature in select p.oid::regprocedure from pg_proc p
        where p.pronamespace = 'trunkline'::regnamespace and (p.proname = any (functions)
            or kind in ('producer', 'admin') and p.proname ~ '^segment_[0-9]+_append$') loop
        execute format('grant execute on function %s to %I', signature, role_name);
    end loop;
end $$;

-- To be called once after a database was restored from a backup: raises the log epoch, so that positions kept
-- outside whose records are gone are not taken for valid. Returns the new epoch.
-- grants: admin
create function trunkline.schema_after_restore() returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    epoch bigint;
begin
    update trunkline.meta set log_epoch = log_epoch + 1 returning log_epoch into epoch;
    return epoch;
end $$;

-- The first call of a client: says what this schema is, and refuses a client that it no longer serves.
-- client_port is the port the server sees the client at; where the client's own socket has another, a pooler
-- stands between them. is_standby: the server is a standby, which takes no writes.
-- errors: TL022
-- grants: producer, consumer, admin
create function trunkline.schema_hello(
    client integer, out schema_version integer, out oldest_client integer, out log_epoch bigint,
    out client_port integer, out is_standby boolean, out server_version integer)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    select m.schema_version, m.oldest_client, m.log_epoch into schema_version, oldest_client, log_epoch
    from trunkline.meta m;
    if client < oldest_client then
        raise exception 'this schema (version %) no longer serves client protocol %, only % and later',
            schema_version, client, oldest_client
            using errcode = 'TL022', hint = 'update the client: pip install --upgrade trunkline';
    end if;
    client_port := inet_client_port();
    is_standby := pg_is_in_recovery();
    server_version := current_setting('server_version_num')::integer;
end $$;

-- Makes a topic's next segment: its table, its function, its catalogue row. Partitions move there one by one.
-- lz4 is used where the server has it. The arrays get no statistics: nobody plans by them, and sampling them
-- would read every batch.
-- errors: TL004 when the database has 2,000 segments
-- grants: none
create function trunkline.segment_create(topic_id integer) returns integer
language plpgsql volatile
as $$
declare
    segment_id integer;
    table_name text;
    squeeze    text := '';
begin
    if (select count(*) from trunkline.segment) >= 2000 then
        raise exception 'this database has 2,000 segments, which is the limit' using errcode = 'TL004',
            hint = 'raise segment_bytes of the largest topics, or let retention drop old segments';
    end if;
    insert into trunkline.segment as s (topic_id, opened_at)
    values (segment_create.topic_id, trunkline.clock_now())
    returning s.segment_id into segment_id;
    table_name := 'segment_' || segment_id;
    if exists (select from pg_settings where name = 'default_toast_compression' and 'lz4' = any (enumvals)) then
        squeeze := 'compression lz4';
    end if;
    execute format($table$
        create table trunkline.%1$I (
            first_offset        bigint not null,
            append_time         timestamptz not null,
            batch_id            bigint not null,
            transaction_id      bigint not null,
            producer_no         bigint,
            partition           integer not null,
            record_count        integer not null,
            transaction_ordinal integer not null,
            transaction_count   integer not null,
            byte_count          integer not null,
            producer_sequence   integer,
            keys                bytea[] %2$s,
            payloads            bytea[] %2$s not null,
            header_counts       integer[] %2$s,
            header_names        text[] %2$s,
            header_values       bytea[] %2$s,
            primary key (partition, first_offset)
        ) with (autovacuum_vacuum_insert_threshold = -1)$table$, table_name, squeeze);
    execute format(
        'create unique index %I on trunkline.%I (producer_no, producer_sequence) where producer_no is not null',
        table_name || '_producer', table_name);
    execute format(
        'alter table trunkline.%I alter keys set statistics 0, alter payloads set statistics 0,
            alter header_counts set statistics 0, alter header_names set statistics 0,
            alter header_values set statistics 0', table_name);
    -- The one before it learns that it is no longer the open one.
    perform trunkline.segment_define(s.segment_id) from (
        select x.segment_id from trunkline.segment x
        where x.topic_id = segment_create.topic_id order by x.segment_id desc limit 2) s;
    return segment_id;
end $$;

-- Makes, or makes again, the function through which batches enter one segment: segment_<id>_append. It is the hot
-- path of publishing, and a function of its own so that its plans are cached, and so that what changes rarely (the
-- topic's limits, the numbers of its partitions, whether a newer segment is open) stands in its text. Whoever
-- changes one of these makes it again. A call may have begun with the old text: it may still honour a limit as it was,
-- but it never writes where it must not, because a partition that has moved on, or whose topic is gone or routed anew,
-- ends here with a closing row.
--
-- It appends one batch to one partition if nothing is unusual, and leaves everything else (a newer segment, a first
-- batch, a new producer, a repeated sequence, a limit that is passed, an error) to log_append_closely. So any segment's
-- function may be called for a partition: one that is no longer current is only slower.
-- Arguments and promises are those of log_append, for one partition, by its id.
-- Returns the first offset, the segment to call next time, and 1 if that was seen to be full, else 0.
-- grants: none
create function trunkline.segment_define(segment_id integer) returns void
language plpgsql volatile
as $define$
declare
    name    constant text := 'segment_' || segment_id || '_append';
    topic   record;
    grantee record;
begin
    select t.partitions, t.batch_records_max, t.record_bytes_max, t.batch_bytes_max, t.key_bytes_max,
        t.header_count_max, t.header_bytes_max, t.segment_bytes,
        not exists (select from trunkline.segment n
            where n.topic_id = s.topic_id and n.segment_id > s.segment_id) as is_open,
        array(select p.partition_id from trunkline.topic_partition p
            where p.topic_id = s.topic_id order by p.partition) as partition_ids
    into strict topic
    from trunkline.segment s join trunkline.topic t on t.topic_id = s.topic_id
    where s.segment_id = segment_define.segment_id;
    execute format($function$
create or replace function trunkline.%1$I(
    partition_id integer, expected_partitions integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_id uuid, producer_epoch integer, sequence integer)
returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $body$
declare
    place    constant integer := array_position(%4$L::integer[], partition_id) - 1;
    producer constant bigint := trunkline.producer_number(producer_id, partition_id, producer_epoch);
    tip      record;
    follows  boolean;
begin
    -- Few and large expressions: each costs a little in every transaction.
    if (%5$L and place is not null
        and record_count = cardinality(payloads) and array_ndims(payloads) = 1 and array_lower(payloads, 1) = 1
        and array_position(payloads, null) is null
        and (keys is null or (cardinality(keys) = record_count and array_ndims(keys) = 1 and array_lower(keys, 1) = 1))
        and (producer_id is null or (producer_epoch >= 0 and sequence > 0))
        and (header_counts is not null or (header_names is null and header_values is null))
        and (expected_partitions is null or expected_partitions = %6$s)
        and record_count <= %7$s
        and (pg_column_size(payloads) <= least(%8$s, %9$s) or trunkline.bytes_fit(payloads, %8$s, %9$s))
        and (keys is null or pg_column_size(keys) <= %10$s or trunkline.bytes_fit(keys, %10$s))
        and (header_counts is null or trunkline.headers_fit(
            record_count, header_counts, header_names, header_values, %11$s, %12$s))
        and current_setting('transaction_isolation') = 'read committed'
        and current_setting('synchronous_commit') <> 'off'
        and current_setting('max_prepared_transactions') = '0') is not true then
        return trunkline.log_append_closely(partition_id, expected_partitions, record_count, keys, payloads,
            header_counts, header_names, header_values, producer_id, producer_epoch, sequence);
    end if;
    if not pg_try_advisory_xact_lock(trunkline.lock_class(), partition_id) then
        perform trunkline.lock_wait(trunkline.lock_class(), partition_id);
    end if;

    -- In a later statement than the lock, so that its snapshot has what the last holder committed.
    select b.first_offset + b.record_count as next_offset, b.append_time, b.transaction_id, b.transaction_count,
        b.producer_no, b.producer_sequence, b.record_count > 0 as is_open
    into tip from trunkline.%2$I b
    where b.partition = place order by b.first_offset desc limit 1;
    follows := tip.is_open and (producer is null
        or (tip.producer_no = producer and tip.producer_sequence = sequence - 1));
    if follows is not true and tip.is_open and tip.producer_no is distinct from producer then
        -- Somebody else wrote last. Where no newer epoch of this producer has, its own last batch counts.
        select b.producer_sequence = sequence - 1 and not exists (
            select from trunkline.producer r where r.partition_id = %1$I.partition_id
                and r.producer_id = %1$I.producer_id and r.epoch > %1$I.producer_epoch)
        into follows from trunkline.%2$I b
        where b.producer_no = producer order by b.producer_sequence desc limit 1;
    end if;
    if follows is not true then
        return trunkline.log_append_closely(partition_id, expected_partitions, record_count, keys, payloads,
            header_counts, header_names, header_values, producer_id, producer_epoch, sequence);
    end if;

    insert into trunkline.%2$I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
        transaction_ordinal, transaction_count, byte_count, producer_no, producer_sequence,
        keys, payloads, header_counts, header_names, header_values)
    values (tip.next_offset, greatest(tip.append_time, trunkline.clock_now()),
        trunkline.random_bigint(), pg_current_xact_id()::text::bigint, place, %1$I.record_count,
        case when tip.transaction_id = pg_current_xact_id()::text::bigint then tip.transaction_count else 0 end,
        case when tip.transaction_id = pg_current_xact_id()::text::bigint then tip.transaction_count else 0 end
            + %1$I.record_count,
        pg_column_size(%1$I.payloads) + coalesce(pg_column_size(%1$I.keys), 0)
            + coalesce(pg_column_size(%1$I.header_names), 0) + coalesce(pg_column_size(%1$I.header_values), 0),
        producer, sequence,
        %1$I.keys, %1$I.payloads, %1$I.header_counts, %1$I.header_names, %1$I.header_values);
    -- Looking at files costs more than a small publish: by chance, about 64 times while a segment fills.
    return array[tip.next_offset, %3$s, (random() * %13$s < pg_column_size(payloads)::bigint * 64
        and trunkline.segment_is_full(%3$s))::integer];
end $body$
$function$, name, 'segment_' || segment_id, segment_id, topic.partition_ids, topic.is_open, topic.partitions,
        topic.batch_records_max, topic.record_bytes_max, topic.batch_bytes_max, topic.key_bytes_max,
        topic.header_count_max, topic.header_bytes_max, topic.segment_bytes);
    execute format('revoke all on function trunkline.%I from public', name);
    for grantee in select g.role_name from trunkline.grantee g where g.kind in ('producer', 'admin') loop
        execute format('grant execute on function trunkline.%I to %I', name, grantee.role_name);
    end loop;
end $define$;

-- Drops the table of a released segment, and its catalogue rows. Call it in a transaction of its own: the log
-- start has moved in an earlier one, so no reader that asks now is sent there.
-- Waits at most a second for a reader that still holds the table; then nothing has changed, and it can be tried
-- again. Returns false where there was nothing to drop.
-- locks: the table, exclusively
-- errors: TL001 where the segment is not released, 55P03
-- grants: admin
create function trunkline.segment_drop(segment_id integer) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set lock_timeout = '1s'
as $$
declare
    released timestamptz;
begin
    select s.released_at into released from trunkline.segment s
    where s.segment_id = segment_drop.segment_id for update;
    if not found then
        return false;
    elsif released is null then
        raise exception 'segment % holds records that can still be read', segment_id using errcode = 'TL001',
            hint = 'retention_release moves the log start first';
    end if;
    execute format('drop table if exists trunkline.%I', 'segment_' || segment_id);
    execute format('drop function if exists trunkline.%I', 'segment_' || segment_id || '_append');
    delete from trunkline.segment s where s.segment_id = segment_drop.segment_id;
    return true;
end $$;

-- Whether a segment has reached the size or the age at which its topic wants the next one.
-- A topic that keeps records for a short time rolls at an eighth of that, or little of it could ever be dropped.
-- grants: none
create function trunkline.segment_is_full(segment_id integer) returns boolean
language sql volatile
as $$
    select pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id)) >= t.segment_bytes
        or trunkline.clock_now() >= s.opened_at
            + least(t.segment_age_s, case when t.retention_age_s is not null then greatest(t.retention_age_s / 8, 1) end)
            * interval '1 second'
    from trunkline.segment s join trunkline.topic t on t.topic_id = s.topic_id
    where s.segment_id = segment_is_full.segment_id
$$;

-- The segments of a topic, or of all topics, oldest first: what each holds, its size, and its state
-- (open, moving: a newer one is open and partitions still move there, sealed, released: waiting to be dropped).
-- errors: TL001 TL002
-- grants: consumer, admin
create function trunkline.segment_list(topic text default null)
returns table (
    segment_id integer, topic_name text, state text, opened_at timestamptz, sealed_at timestamptz,
    last_append_time timestamptz, byte_count bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select s.segment_id, t.name, case
                when s.released_at is not null then 'released'
                when s.sealed_at is not null then 'sealed'
                when t.open_segment_id = s.segment_id then 'open'
                else 'moving' end,
            s.opened_at, s.sealed_at, s.last_append_time,
            coalesce(s.byte_count, pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id)))
        from trunkline.segment s left join trunkline.topic t using (topic_id)
        where id is null or s.topic_id = id order by s.segment_id;
end $$;

-- The batches of one record from an offset on, at most `most`, as a single row; null where there are fewer than 64 of
-- them before another batch: then reading them one by one is cheaper. A batch of more than bytes_each ends the run
-- too, so its size is bounded.
-- grants: none
create function trunkline.segment_merge(
    segment_id integer, partition integer, at_offset bigint, most integer, bytes_each bigint)
returns trunkline.batch_row
language plpgsql volatile
as $$
declare
    name     constant text := 'segment_' || segment_id;
    merged   trunkline.batch_row;
    has_more boolean;    -- keys or headers
begin
    -- Most runs are as long as they may be, and the rows need to be gone through once only. Where something else
    -- stands between them the count tells, and then it is looked for.
    while most >= 64 loop
        execute format(
            'select count(*), bool_or(s.has_more), string_agg(s.payload, null), array_agg(octet_length(s.payload)),
                 array_agg(s.append_time), sum(s.byte_count)
             from (
                 select b.first_offset, b.payloads[1] as payload, b.append_time, b.byte_count,
                     b.keys is not null or b.header_counts is not null as has_more
                 from trunkline.%I b
                 where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $2 + $3
                     and b.record_count = 1 and b.byte_count <= $4
                 order by b.first_offset) s
             having max(s.first_offset) = $2 + count(*) - 1', name)
            into merged.record_count, has_more, merged.joined, merged.lengths, merged.append_times, merged.byte_count
            using partition, at_offset, most, bytes_each;
        exit when merged.record_count is not null;
        execute format(
            'select min(b.first_offset) - $2 from trunkline.%I b
             where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $2 + $3
                 and (b.record_count <> 1 or b.byte_count > $4)', name)
            into most using partition, at_offset, most, bytes_each;
    end loop;
    if merged.record_count is null or merged.record_count < 64 then
        return null;
    end if;
    merged.first_offset := at_offset;
    merged.append_time := merged.append_times[1];
    if has_more then
        execute format(
            'select case when count(b.keys) > 0 then array_agg(b.keys[1] order by b.first_offset) end,
                 case when count(b.header_counts) > 0 then
                     array_agg(coalesce(b.header_counts[1], 0) order by b.first_offset) end
             from trunkline.%I b where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3', name)
            into merged.keys, merged.header_counts using partition, at_offset, at_offset + merged.record_count;
    end if;
    if merged.header_counts is not null then
        execute format(
            'select coalesce(array_agg(u.n order by b.first_offset, u.i), ''{}''),
                 coalesce(array_agg(u.v order by b.first_offset, u.i), ''{}'')
             from trunkline.%I b cross join lateral unnest(b.header_names, b.header_values) with ordinality u(n, v, i)
             where b.partition = $1 and b.first_offset >= $2 and b.first_offset < $3', name)
            into merged.header_names, merged.header_values
            using partition, at_offset, at_offset + merged.record_count;
    end if;
    return merged;
end $$;

-- Opens a topic's next segment if `segment_id` is still the open one, and (unless forced) full. A publish never
-- does this itself: making a table would hold its partition's lock. Returns the open segment.
-- locks: the topic
-- errors: TL002 TL004, 55P03
-- grants: admin
create function trunkline.segment_roll(segment_id integer, force boolean default false) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id   integer;
    open integer;
begin
    select s.topic_id into id from trunkline.segment s where s.segment_id = segment_roll.segment_id;
    if not found then
        raise exception 'segment % does not exist', segment_id using errcode = 'TL002';
    end if;
    perform trunkline.topic_lock(id);
    select t.open_segment_id into open from trunkline.topic t where t.topic_id = id;
    if open = segment_id and (coalesce(force, false) or trunkline.segment_is_full(segment_id)) then
        open := trunkline.segment_create(id);
        update trunkline.topic t set open_segment_id = open where t.topic_id = id;
    end if;
    return open;
end $$;

-- What a client calls after a publish that saw the segment's limit passed: segment_roll without force, so that a
-- producer cannot make segments at will.
-- locks, errors: as segment_roll
-- grants: producer, admin
create function trunkline.segment_roll_if_full(segment_id integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
begin
    return trunkline.segment_roll(segment_id, false);
end $$;

-- Seals a segment that is no longer the open one: moves the partitions that have not published since, keeps the
-- last sequences of its producers, and notes what retention wants to know. Nothing is written to it afterwards.
-- Returns false where it was sealed already, or is still the open one.
-- locks: the topic, then each partition that has to move, in ascending order
-- errors: TL002, 55P03
-- grants: producer, admin
create function trunkline.segment_seal(segment_id integer) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    segment record;
    topic   record;
    part    record;
    name    constant text := 'segment_' || segment_id;
    newest  timestamptz;
    has_keys boolean;
begin
    select s.topic_id into segment from trunkline.segment s where s.segment_id = segment_seal.segment_id;
    if not found then
        raise exception 'segment % does not exist', segment_id using errcode = 'TL002';
    end if;
    perform trunkline.topic_lock(segment.topic_id);
    select s.topic_id, s.sealed_at, s.released_at into segment
    from trunkline.segment s where s.segment_id = segment_seal.segment_id;
    select t.topic_id, t.open_segment_id into topic from trunkline.topic t where t.topic_id = segment.topic_id;
    if segment.sealed_at is not null or segment.released_at is not null or topic.open_segment_id = segment_id then
        return false;
    end if;
    for part in select p.partition_id, p.partition from trunkline.topic_partition p
        where p.topic_id = topic.topic_id and segment_id >= (
            select max(sp.segment_id) from trunkline.segment_partition sp where sp.partition_id = p.partition_id)
        order by p.partition_id loop
        perform trunkline.lock_partition(part.partition_id);
        if segment_id >= (select max(sp.segment_id) from trunkline.segment_partition sp
                where sp.partition_id = part.partition_id) then
            perform trunkline.partition_move(part.partition_id, part.partition, topic.open_segment_id);
        end if;
    end loop;
    execute format(
        'update trunkline.producer r
         set last_sequence = x.producer_sequence, last_offset = x.first_offset, last_count = x.record_count,
             seen_at = x.append_time
         from (
             select q.producer_no, b.producer_sequence, b.first_offset, b.record_count, b.append_time
             from trunkline.topic_partition p join trunkline.producer q using (partition_id), lateral (
                 select y.producer_sequence, y.first_offset, y.record_count, y.append_time from trunkline.%I y
                 where y.producer_no = q.producer_no order by y.producer_sequence desc limit 1) b
             where p.topic_id = $1) x
         where r.producer_no = x.producer_no and x.producer_sequence > r.last_sequence', name)
        using topic.topic_id;
    execute format('select exists (select from trunkline.%I b where b.keys is not null)', name) into has_keys;
    execute format(
        'select max(x.append_time) from trunkline.topic_partition p, lateral (
             select b.append_time from trunkline.%I b
             where b.partition = p.partition and b.record_count > 0 order by b.first_offset desc limit 1) x
         where p.topic_id = $1', name) into newest using topic.topic_id;
    update trunkline.segment s
    set sealed_at = trunkline.clock_now(), last_append_time = newest, keyed = has_keys,
        byte_count = pg_total_relation_size(format('trunkline.%I', name)::regclass)
    where s.segment_id = segment_seal.segment_id;
    return true;
end $$;

-- Writes a batch whose arguments have been checked, and whose partition is in the segment: the last step of
-- log_append_closely. It has to do the same as the end of segment_<id>_append, which does it with cached plans.
-- Returns what that returns.
-- locks: none; the caller holds the partition's lock
-- grants: none
create function trunkline.segment_write(
    segment_id integer, partition_id integer, record_count integer,
    keys bytea[], payloads bytea[], header_counts integer[], header_names text[], header_values bytea[],
    producer_no bigint, sequence integer)
returns bigint[]
language plpgsql volatile
as $$
declare
    name constant text := 'segment_' || segment_id;
    tip  record;
    xid  constant bigint := pg_current_xact_id()::text::bigint;
begin
    select p.partition, sp.first_offset as next_offset, sp.time_floor as append_time, sp.transaction_id,
        sp.transaction_count
    into strict tip
    from trunkline.topic_partition p join trunkline.segment_partition sp on sp.partition_id = p.partition_id
    where p.partition_id = segment_write.partition_id and sp.segment_id = segment_write.segment_id;
    execute format(
        'select $1, coalesce(b.first_offset + b.record_count, $2), coalesce(b.append_time, $3),
             coalesce(b.transaction_id, $4), coalesce(b.transaction_count, $5)
         from (values (1)) one left join lateral (
             select x.* from trunkline.%I x where x.partition = $1 order by x.first_offset desc limit 1) b on true', name)
        into tip.partition, tip.next_offset, tip.append_time, tip.transaction_id, tip.transaction_count
        using tip.partition, tip.next_offset, tip.append_time, tip.transaction_id, tip.transaction_count;
    if tip.transaction_id is distinct from xid then
        tip.transaction_count := 0;
    end if;
    execute format(
        'insert into trunkline.%I (first_offset, append_time, batch_id, transaction_id, partition, record_count,
             transaction_ordinal, transaction_count, byte_count, producer_no, producer_sequence,
             keys, payloads, header_counts, header_names, header_values)
         values ($1, greatest($2, trunkline.clock_now()), trunkline.random_bigint(), $3, $4, $5, $6, $6 + $5,
             pg_column_size($10) + coalesce(pg_column_size($9), 0) + coalesce(pg_column_size($12), 0)
                 + coalesce(pg_column_size($13), 0),
             $7, $8, $9, $10, $11, $12, $13)', name)
        using tip.next_offset, tip.append_time, xid, tip.partition, record_count, tip.transaction_count,
            producer_no, sequence, keys, payloads, header_counts, header_names, header_values;
    return array[tip.next_offset, segment_id, trunkline.segment_is_full(segment_id)::integer];
end $$;

-- lock_list with what the caller may know of each session. Runs as the caller, so that nobody sees more here than in
-- pg_stat_activity. transaction_since is when the session's transaction began; its lock is not older than that.
-- errors: none
-- grants: admin
create function trunkline.lock_holder_list()
returns table (
    topic text, partition integer, pid integer, granted boolean, waiting_since timestamptz, user_name text,
    application text, state text, transaction_since timestamptz, query_start timestamptz)
language sql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select k.topic, k.partition, k.pid, k.granted, k.waiting_since, a.usename::text, a.application_name, a.state,
        a.xact_start, a.query_start
    from trunkline.lock_list() k left join pg_stat_activity a on a.pid = k.pid
    order by k.topic, k.partition, k.granted desc, k.waiting_since
$$;

-- Who holds, and who waits for, the lock of a partition, or of a topic (partition is null). pid is null for a
-- prepared transaction. Names and process ids only: what a session does is for lock_holder_list.
-- errors: none
-- grants: admin
create function trunkline.lock_list()
returns table (topic text, partition integer, pid integer, granted boolean, waiting_since timestamptz)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    with ours as (
        select l.classid, l.objid, l.pid, l.granted, l.waitstart from pg_locks l
        where l.locktype = 'advisory' and l.objsubid = 2
            and l.database = (select d.oid from pg_database d where d.datname = current_database()))
    select t.name, p.partition, o.pid, o.granted, o.waitstart
    from ours o join trunkline.topic_partition p on p.partition_id::oid = o.objid
    join trunkline.topic t using (topic_id)
    where o.classid = trunkline.lock_class()::oid
    union all
    select t.name, null, o.pid, o.granted, o.waitstart
    from ours o join trunkline.topic t on t.topic_id::oid = o.objid
    where o.classid = (trunkline.lock_class() + 1)::oid
$$;

-- How far the maintenance of each topic has come, by name; a last row without one counts what deleted topics left.
-- byte_count is everything that is not released. Since when something is due, null where nothing is:
-- roll_due_since (the open segment is old enough for the next one), moving_since (a segment that is no longer open
-- is not sealed), expired_since (records are older than retention_age_s), released_since (a table is not dropped).
-- bytes_over is what retention could free now because of retention_bytes.
-- errors: none
-- grants: consumer, admin
create function trunkline.retention_describe()
returns table (
    topic text, retention_age_s bigint, retention_bytes bigint, segments integer, segments_moving integer,
    segments_released integer, byte_count bigint, roll_due_since timestamptz, moving_since timestamptz,
    expired_since timestamptz, released_since timestamptz, bytes_over bigint)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    with clock as materialized (select trunkline.clock_now() as now), sized as (
        select s.*, t.name, t.open_segment_id, t.retention_age_s, t.retention_bytes,
            s.segment_id = t.open_segment_id as is_open,
            coalesce(s.byte_count, pg_total_relation_size(to_regclass('trunkline.segment_' || s.segment_id)), 0) as size,
            s.opened_at + least(t.segment_age_s, case when t.retention_age_s is not null
                then greatest(t.retention_age_s / 8, 1) end) * interval '1 second' as roll_due,
            coalesce(s.last_append_time, s.sealed_at) + t.retention_age_s * interval '1 second' as expires,
            lead(s.opened_at) over (partition by s.topic_id order by s.segment_id) as followed_at
        from trunkline.segment s left join trunkline.topic t using (topic_id))
    select z.name, min(z.retention_age_s), min(z.retention_bytes), count(*)::integer,
        count(*) filter (where z.sealed_at is null and z.released_at is null and not z.is_open)::integer,
        count(*) filter (where z.released_at is not null)::integer,
        coalesce(sum(z.size) filter (where z.released_at is null), 0)::bigint,
        min(z.roll_due) filter (where z.is_open and z.roll_due < c.now),
        min(z.followed_at) filter (where z.sealed_at is null and z.released_at is null and not z.is_open),
        min(z.expires) filter (where z.sealed_at is not null and z.released_at is null and z.expires < c.now),
        min(z.released_at),
        case when sum(z.size) filter (where z.released_at is null) > min(z.retention_bytes)
            then least(sum(z.size) filter (where z.released_at is null) - min(z.retention_bytes),
                sum(z.size) filter (where z.sealed_at is not null and z.released_at is null))::bigint end
    from sized z cross join clock c group by z.name order by z.name nulls last
$$;

-- What an operator wants to know of the server: its version, whether it is a standby, whether it has lz4, and the
-- settings that decide whether a commit survives a crash, as this session has them. segments: how many the
-- database has, of segments_max. server_time is what ages are to be counted from.
-- errors: none
-- grants: producer, consumer, admin
create function trunkline.server_describe(
    out server_version text, out server_version_num integer, out is_standby boolean, out has_lz4 boolean,
    out fsync boolean, out synchronous_commit text, out full_page_writes boolean, out data_checksums boolean,
    out synchronous_standby_names text, out segments integer, out segments_max integer,
    out server_time timestamptz)
language sql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
        exists (select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)),
        current_setting('fsync')::boolean, current_setting('synchronous_commit'),
        current_setting('full_page_writes')::boolean, current_setting('data_checksums')::boolean,
        current_setting('synchronous_standby_names'), (select count(*)::integer from trunkline.segment), 2000,
        trunkline.clock_now()
$$;

-- How many sessions of this database the caller may look into, and how many it may not: what the latter hold shows
-- in no list. Runs as the caller, so that nobody sees more here than in pg_stat_activity.
-- errors: none
-- grants: admin
create function trunkline.session_count(out visible integer, out hidden integer)
language sql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select count(*) filter (where a.query is distinct from '<insufficient privilege>')::integer,
        count(*) filter (where a.query = '<insufficient privilege>')::integer
    from pg_stat_activity a where a.datname = current_database()
$$;

-- Who keeps old row versions alive in this database, oldest first, at most max_rows: sessions with a snapshot,
-- prepared transactions, replication slots. transactions_behind counts the transactions begun since. Runs as the
-- caller, so that nobody sees more here than in pg_stat_activity; the caller's own session is left out.
-- errors: none
-- grants: admin
create function trunkline.snapshot_list(max_rows integer default 20)
returns table (
    holder text, name text, pid integer, user_name text, application text, state text, since timestamptz,
    query_start timestamptz, transactions_behind bigint)
language sql volatile
set search_path = pg_catalog, trunkline, pg_temp
as $$
    select x.* from (
        select 'session', null::text, a.pid, a.usename::text, a.application_name, a.state, a.xact_start,
            a.query_start, age(coalesce(a.backend_xmin, a.backend_xid))::bigint
        from pg_stat_activity a
        where (a.datname = current_database() or a.backend_type = 'walsender') and a.pid <> pg_backend_pid()
            and a.backend_type <> 'autovacuum worker' and coalesce(a.backend_xmin, a.backend_xid) is not null
        union all
        select 'prepared', p.gid, null, p.owner::text, null, null, p.prepared, null, age(p.transaction)::bigint
        from pg_prepared_xacts p where p.database = current_database()
        union all
        select 'slot', s.slot_name::text, s.active_pid, null, null, null, null, null,
            age(coalesce(s.xmin, s.catalog_xmin))::bigint
        from pg_replication_slots s where coalesce(s.xmin, s.catalog_xmin) is not null
    ) x (holder, name, pid, user_name, application, state, since, query_start, transactions_behind)
    order by x.transactions_behind desc, x.since nulls last limit max_rows
$$;

-- Raises a topic's number of partitions. Keys are then routed by the new number, so a key's later records may
-- stand in another partition than its earlier ones: refused where the log has keyed records, unless asked for.
-- locks: the topic, then every partition in ascending order: no record is routed by both numbers at once
-- errors: TL001 TL002 TL004 TL010, 55P03
-- grants: admin
create function trunkline.topic_add_partitions(
    topic text, partitions integer, break_key_order boolean default false) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id  constant integer := trunkline.topic_id_of(topic);
    old  integer;
    part record;
    open integer;
begin
    perform trunkline.topic_lock(id);
    select t.partitions into old from trunkline.topic t where t.topic_id = id;
    if partitions is null or partitions <= old or partitions > 1024 then
        raise exception 'topic % has % partitions; the new number must be higher, at most 1024, not %',
            topic, old, coalesce(partitions::text, 'null') using errcode = 'TL001';
    end if;
    open := trunkline.segment_create(id);
    perform trunkline.lock_partition(p.partition_id) from (
        select tp.partition_id from trunkline.topic_partition tp where tp.topic_id = id order by tp.partition_id) p;
    if not coalesce(break_key_order, false) and trunkline.topic_is_keyed(id) then
        raise exception 'topic % has keyed records, whose order would break at % partitions', topic, partitions
            using errcode = 'TL010', hint = 'ask for it with break_key_order, or publish to a new topic';
    end if;
    -- Into a new segment: an append that was routed by the old number, and waits for a lock, finds its partition closed.
    for part in select p.partition_id, p.partition from trunkline.topic_partition p where p.topic_id = id loop
        perform trunkline.partition_move(part.partition_id, part.partition, open);
    end loop;
    update trunkline.topic t set partitions = topic_add_partitions.partitions, open_segment_id = open
    where t.topic_id = id;
    perform trunkline.partition_create(id, old, partitions - 1);
    perform trunkline.segment_define(open);
end $$;

-- Changes settings of a topic; see topic_apply_settings.
-- locks: the topic
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.topic_alter(topic text, settings jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := trunkline.topic_id_of(topic);
begin
    perform trunkline.topic_lock(id);
    perform trunkline.topic_apply_settings(id, settings);
    perform trunkline.segment_define((select t.open_segment_id from trunkline.topic t where t.topic_id = id));
end $$;

-- Sets the given settings of a topic, and leaves the others. null takes a limit of retention away, and puts any
-- other setting back to its default.
-- locks: none; the caller holds the topic's lock
-- errors: TL001 for a setting that is not known, or a value that is out of its range
-- grants: none
create function trunkline.topic_apply_settings(topic_id integer, settings jsonb) returns void
language plpgsql volatile
as $$
declare
    name  text;
    value jsonb;
    known constant text[] := array['retention_age_s', 'retention_bytes', 'segment_bytes', 'segment_age_s',
        'record_bytes_max', 'batch_bytes_max', 'batch_records_max', 'key_bytes_max', 'header_count_max',
        'header_bytes_max'];
begin
    if jsonb_typeof(settings) is distinct from 'object' then
        raise exception 'settings must be a JSON object' using errcode = 'TL001';
    end if;
    for name, value in select * from jsonb_each(settings) loop
        if name <> all (known) then
            raise exception 'a topic has no setting %', quote_literal(left(name, 80)) using errcode = 'TL001',
                hint = 'its settings are ' || array_to_string(known, ', ');
        elsif jsonb_typeof(value) = 'null' then
            execute format('update trunkline.topic set %I = default where topic_id = $1', name) using topic_id;
        elsif jsonb_typeof(value) <> 'number' or value::numeric <> trunc(value::numeric)
            or abs(value::numeric) > 9223372036854775807 then
            raise exception '% must be a whole number, not %', name, left(value::text, 80) using errcode = 'TL001';
        else
            begin
                execute format('update trunkline.topic set %I = $2 where topic_id = $1', name)
                    using topic_id, value::numeric::bigint;
            exception when check_violation or numeric_value_out_of_range then
                raise exception '% = % is out of range', name, value using errcode = 'TL001',
                    hint = (select pg_get_constraintdef(c.oid) from pg_constraint c
                        where c.conrelid = 'trunkline.topic'::regclass and c.conname = 'topic_' || name || '_check');
            end;
        end if;
    end loop;
end $$;

-- Refuses what cannot be a topic's name.
-- errors: TL001
-- grants: none
create function trunkline.topic_check_name(name text) returns void
language plpgsql immutable
as $$
begin
    if name is null or name collate "C" !~ '^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$' or position('..' in name) > 0 then
        raise exception 'not a topic name: %', coalesce(quote_literal(left(name, 80)), 'null')
            using errcode = 'TL001',
            hint = '1 to 200 of A-Z a-z 0-9 . _ - /, no leading dash, dot or slash, no two dots in a row';
    end if;
end $$;

-- Creates a topic with its partitions and its first segment.
-- settings: see topic_apply_settings; null or {} for the defaults.
-- errors: TL001 TL003 TL004
-- grants: admin
create function trunkline.topic_create(name text, partitions integer default 1, settings jsonb default '{}')
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    new_id integer;
begin
    perform trunkline.topic_check_name(name);
    if partitions is null or partitions not between 1 and 1024 then
        raise exception 'a topic has 1 to 1024 partitions, not %', coalesce(partitions::text, 'null')
            using errcode = 'TL001';
    end if;
    insert into trunkline.topic (incarnation, name, partitions, open_segment_id, created_at)
    values (trunkline.random_bigint(), topic_create.name, topic_create.partitions, 0, trunkline.clock_now())
    on conflict on constraint topic_name_key do nothing
    returning topic.topic_id into new_id;
    if new_id is null then
        raise exception 'topic % exists already', name using errcode = 'TL003',
            hint = 'describe it with `trunkline topic describe`, or alter it';
    end if;
    perform trunkline.topic_apply_settings(new_id, coalesce(settings, '{}'));
    update trunkline.topic t set open_segment_id = trunkline.segment_create(new_id)
    where t.topic_id = new_id;
    perform trunkline.partition_create(new_id, 0, partitions - 1);
    perform trunkline.segment_define((select t.open_segment_id from trunkline.topic t where t.topic_id = new_id));
    return new_id;
end $$;

-- Deletes a topic. Its name is free at once; its tables are left released, for segment_drop.
-- Returns the ids of the segments to drop.
-- locks: the topic, then every partition in ascending order
-- errors: TL001 TL002, 55P03
-- grants: admin
create function trunkline.topic_delete(topic text) returns integer[]
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id      constant integer := trunkline.topic_id_of(topic);
    dropped integer[];
    part    record;
begin
    perform trunkline.topic_lock(id);
    for part in select p.partition_id, p.partition from trunkline.topic_partition p
        where p.topic_id = id order by p.partition_id loop
        perform trunkline.lock_partition(part.partition_id);
        perform trunkline.partition_close(part.partition_id, part.partition);
    end loop;
    update trunkline.segment s set released_at = trunkline.clock_now()
    where s.topic_id = id and s.released_at is null;
    select coalesce(array_agg(s.segment_id order by s.segment_id), '{}') into dropped
    from trunkline.segment s where s.topic_id = id;
    delete from trunkline.topic t where t.topic_id = id;
    return dropped;
end $$;

-- The id of a topic by its name.
-- errors: TL001 TL002
-- grants: none
create function trunkline.topic_id_of(name text) returns integer
language plpgsql stable
as $$
declare
    topic_id integer;
begin
    select t.topic_id into topic_id from trunkline.topic t where t.name = topic_id_of.name collate "C";
    if not found then
        perform trunkline.topic_check_name(name);
        raise exception 'topic % does not exist', name
            using errcode = 'TL002', hint = format('create it: trunkline topic create %s', name);
    end if;
    return topic_id;
end $$;

-- Whether any record in a topic's log has a key. Sealed segments know; open ones are looked through.
-- grants: none
create function trunkline.topic_is_keyed(topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    segment record;
    keyed   boolean;
begin
    for segment in select s.segment_id, s.sealed_at, s.keyed from trunkline.segment s
        where s.topic_id = topic_is_keyed.topic_id and s.released_at is null order by s.segment_id loop
        keyed := segment.keyed;
        if segment.sealed_at is null then
            execute format('select exists (select from trunkline.%I b where b.keys is not null)',
                'segment_' || segment.segment_id) into keyed;
        end if;
        if keyed then
            return true;
        end if;
    end loop;
    return false;
end $$;

-- Every topic by name with its settings and the ids of its partitions in order, or the named one.
-- errors: TL001 TL002 for a name that does not exist
-- grants: producer, consumer, admin
create function trunkline.topic_list(topic text default null)
returns table (
    topic_id integer, incarnation bigint, name text, partitions integer, open_segment_id integer,
    created_at timestamptz, retention_age_s bigint, retention_bytes bigint, segment_bytes bigint,
    segment_age_s bigint, record_bytes_max integer, batch_bytes_max integer, batch_records_max integer,
    key_bytes_max integer, header_count_max integer, header_bytes_max integer, partition_ids integer[])
language plpgsql stable security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    id constant integer := case when topic is not null then trunkline.topic_id_of(topic) end;
begin
    return query
        select t.*, array(select p.partition_id from trunkline.topic_partition p
            where p.topic_id = t.topic_id order by p.partition)
        from trunkline.topic t where id is null or t.topic_id = id order by t.name;
end $$;

-- Takes the lock under which a topic's segments, partitions and settings change, for the rest of the transaction.
-- errors: 55P03 when the wait is over
-- grants: none
create function trunkline.topic_lock(topic_id integer) returns void
language plpgsql volatile
as $$
begin
    if not pg_try_advisory_xact_lock(trunkline.lock_class() + 1, topic_id) then
        perform trunkline.lock_wait(trunkline.lock_class() + 1, topic_id);
    end if;
end $$;

-- Says what is missing: the topic, or the partition of it.
-- errors: TL002, always
-- grants: none
create function trunkline.topic_raise_missing(topic_id integer, partition integer) returns void
language plpgsql stable
as $$
declare
    topic record;
begin
    select t.name, t.partitions into topic from trunkline.topic t where t.topic_id = topic_raise_missing.topic_id;
    if not found then
        raise exception 'topic % does not exist, or was deleted', topic_id
            using errcode = 'TL002', hint = 'create it with topic_create or `trunkline topic create`';
    end if;
    raise exception 'topic % has no partition %', topic.name, coalesce(partition::text, 'null')
        using errcode = 'TL002', hint = format('its partitions are 0 to %s', topic.partitions - 1);
end $$;

-- Nothing of ours is for everybody; roles get what they are granted by name, below.
revoke all on schema trunkline from public;
revoke all on all functions in schema trunkline from public;
revoke all on all tables in schema trunkline from public;
do $do$
begin
    perform trunkline.segment_define(s.segment_id)
    from trunkline.segment s where s.sealed_at is null and s.released_at is null order by s.segment_id;
end $do$;

select trunkline.role_ensure('trunkline_producer');
select trunkline.role_grant('producer', 'trunkline_producer', '{log_append,log_publish,log_range,partition_of_key,schema_hello,segment_roll_if_full,segment_seal,server_describe,topic_list}');
select trunkline.role_ensure('trunkline_consumer');
select trunkline.role_grant('consumer', 'trunkline_consumer', '{bytes_readable,log_check_pin,log_offset_at,log_pin,log_range,log_read,records,partition_of_key,schema_hello,segment_list,retention_describe,server_describe,topic_list}');
select trunkline.role_ensure('trunkline_admin');
select trunkline.role_grant('admin', 'trunkline_admin', '{bytes_readable,log_append,log_check_pin,log_offset_at,log_pin,log_publish,log_range,log_read,records,partition_of_key,producer_expire,retention_due,retention_release,schema_after_restore,schema_hello,segment_drop,segment_list,segment_roll,segment_roll_if_full,segment_seal,lock_holder_list,lock_list,retention_describe,server_describe,session_count,snapshot_list,topic_add_partitions,topic_alter,topic_create,topic_delete,topic_list}');
update trunkline.meta set schema_version = 1, oldest_client = 1;
commit;
