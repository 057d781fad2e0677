"""The numbers by which client and schema know each other, and the statements the client sends.

The protocol lives in SQL functions; here are only their names. Statements are whole and fixed; the names that
vary are those of a segment's function and of a queue's, which come from integer ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from psycopg.sql import SQL, Composed, Identifier

CLIENT_PROTOCOL = 3
"""What this client speaks; the schema says in ``oldest_client`` what it still serves."""

SCHEMA_VERSION_MIN = 4
"""The oldest schema that this client works with."""

HELLO = "select * from trunkline.schema_hello(%s::int4)"
APPEND = (
    "select first_offsets, open_segment_id, is_full from trunkline.log_append"
    "(%s::int4, %s::int4, %s, %s, %s, %s, %s, %s, %s, %s, %s::int4, %s)"
)
_APPEND_TO_SEGMENT = SQL("select trunkline.{}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
APPEND_TYPES = (23, 23, 23, 1001, 1001, 1007, 1009, 1001, 2950, 23, 23)
"""integer, bytea[], text[] and uuid, as the function declares them."""
APPEND_ANSWER = Struct("!20x4xq4xq4xq")
"""An array of three: first offset, open segment, whether that is full. A header of 20 bytes, a length before each."""


@lru_cache(maxsize=256)
def append_to_segment(segment_id: int) -> bytes:
    """The call that appends to one partition through the function of a segment (docs/decisions/0004)."""
    return _APPEND_TO_SEGMENT.format(Identifier(f"segment_{int(segment_id)}_append")).as_bytes()


READ = "select * from trunkline.log_read(%s::int4, %s::int4, %s, %s::int4, %s, %s, true)"
READ_PREPARED = b"select * from trunkline.log_read($1, $2, $3, $4, $5, $6, true)"
READ_TYPES = (23, 23, 20, 23, 20, 16)
READ_VALUES = tuple(Struct(code).pack for code in ("!i", "!i", "!q", "!i", "!q", "!?"))
RANGE = 'select partition, start, "end" from trunkline.log_range(%s::int4, %s::int4) order by partition'
OFFSET_AT = "select trunkline.log_offset_at(%s::int4, %s::int4, %s)"
PIN = "select incarnation, batch_id, log_epoch from trunkline.log_pin(%s::int4, %s::int4, %s)"
CHECK_PIN = "select trunkline.log_check_pin(%s::int4, %s::int4, %s, %s, %s, %s)"
RANGES = (
    'select id, r.partition, r.start, r."end" from unnest(%s) as topic(id), '
    "lateral trunkline.log_range(topic.id, null) r order by 1, 2"
)
"""The logs of several topics, by id."""
PINS = (
    "select p.incarnation, p.batch_id, p.log_epoch "
    "from unnest(%s, %s, %s) with ordinality as place(topic_id, partition, at, n), "
    "lateral trunkline.log_pin(place.topic_id, place.partition, place.at) p order by place.n"
)
CHECK_PINS = (
    "select trunkline.log_check_pin(topic_id, partition, at, incarnation, batch_id, %s) "
    "from unnest(%s, %s, %s, %s, %s) "
    "as place(topic_id, partition, at, incarnation, batch_id)"
)
GROUP_REPORT = "select trunkline.group_report(%s, %s, %s, %s)"
TOPICS = "select * from trunkline.topic_list(%s)"
TOPIC_CREATE = "select trunkline.topic_create(%s, %s::int4, %s::jsonb)"
TOPIC_ALTER = "select trunkline.topic_alter(%s, %s::jsonb)"
TOPIC_ADD_PARTITIONS = "select trunkline.topic_add_partitions(%s, %s::int4, %s)"
TOPIC_DELETE = "select trunkline.topic_delete(%s)"
SEGMENTS = "select * from trunkline.segment_list(%s)"
ROLL = "select trunkline.segment_roll_if_full(%s::int4)"
SEAL = "select trunkline.segment_seal(%s::int4)"
DROP = "select trunkline.segment_drop(%s::int4)"
RETENTION_DUE = "select action, segment_id, topic_id from trunkline.retention_due(%s)"
RETENTION_RELEASE = "select segment_id, reason, record_count, byte_count from trunkline.retention_release(%s::int4)"
PRODUCER_EXPIRE = "select trunkline.producer_expire(%s::int4)"
MORE = "select partition_id from trunkline.log_more(%s, %s)"
RING = "select pg_notify(channel, payload) from unnest(%s, %s) as ring(channel, payload)"
RING_PREPARED = b"select pg_notify(channel, payload) from unnest($1, $2) as ring(channel, payload)"
RING_TYPES = (1009, 1009)
TOPIC_RING = "select trunkline.topic_ring(%s)"
RING_SESSION = "select set_config('synchronous_commit', 'off', false)"
"""A ring is a hint: its commit need not be flushed."""

GROUP_CREATE = "select trunkline.group_create(%s, %s::text[], %s, %s, %s)"
GROUP_ENTER = "select trunkline.group_enter(%s, %s, %s, %s, %s, %s)"
GROUP_BEGIN = "select trunkline.group_begin(%s::int4, %s::int4)"
GROUP_VIEW = "select * from trunkline.group_view(%s::int4, %s::int4)"
GROUP_TAKE = "select cursor_id, epoch, next_offset from trunkline.group_take(%s::int4, %s)"
GROUP_RELEASE = "select trunkline.group_release(%s::int4, %s)"
GROUP_COMMIT = "select trunkline.group_commit(%s::int4, %s, %s, %s, %s)"
COMMIT_PREPARED = b"select trunkline.group_commit($1, $2, $3, $4)"
COMMIT_TYPES = (23, 1007, 1007, 1016)
"""integer, integer[] and bigint[], as the function declares them."""
COMMIT_MEMBER = Struct("!i").pack
GROUP_MOVE = "select cursor_id, epoch from trunkline.group_move(%s::int4, %s, %s, %s)"
GROUP_CLAIM = "select claimed_start, claimed_end from trunkline.group_claim(%s::int4, %s::int4, %s)"
GROUP_CURSORS = "select cursor_id, topic_id, partition, next_offset from trunkline.group_cursors(%s::int4)"
GROUP_SWEEP = "select trunkline.group_sweep(10000, %s::int4)"
GROUP_LIST = "select * from trunkline.group_list()"
GROUP_DESCRIBE = "select * from trunkline.group_describe(%s)"
GROUP_SEEK = "select partition, from_offset, to_offset from trunkline.group_seek(%s, %s, %s::int4, %s, %s, %s, %s, %s)"
GROUP_DELETE = "select trunkline.group_delete(%s, %s)"
QUEUE_ENTER = (
    "select queue_id, settings, part_ids from trunkline.queue_enter"
    "(%s::int4, %s, %s, %s, %s::float8, %s::int4, %s, %s, %s::float8, %s)"
)
QUEUE_NEXT = (
    "select * from trunkline.queue_next(%s::int4, %s, %s, %s, %s, %s, %s, %s, %s::int4, %s::int8, %s::int4, %s)"
)
QUEUE_NEXT_PREPARED = b"select * from trunkline.queue_next($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
QUEUE_NEXT_TYPES = (23, 1007, 1016, 1016, 1007, 1009, 1009, 1022, 23, 20, 23, 25)
"""integer, bigint, text, and arrays of them and of double precision, as the function declares them."""
_QUEUE_STEP = SQL("select * from trunkline.{}($1, $2, $3, $4, $5, $6, $7, $8, $9)")


@lru_cache(maxsize=256)
def queue_step(table_no: int) -> bytes:
    """The call that acknowledges one claim and makes the next, through the function of a queue's tables."""
    return _QUEUE_STEP.format(Identifier(f"claim_{int(table_no)}_step")).as_bytes()


QUEUE_STEP_TYPES = (23, 20, 20, 23, 4536, 23, 23, 25, 16)
"""integer, bigint, int8multirange, text."""
QUEUE_STEP_NUMBERS = Struct("!qqqiiq").unpack
"""What was claimed: number, token, first offset, how many records, for how many milliseconds, append time."""
QUEUE_TABLES = "select part_id, table_no from trunkline.queue_tables(%s::int4)"
QUEUE_ROLL = "select trunkline.queue_roll(%s::int4)"
QUEUE_MOVE_PARTS = "select trunkline.queue_move_parts(%s::int4)"
QUEUE_DROP_OLD = "select trunkline.queue_drop_old()"
TRANSACTION_ID = "select pg_current_xact_id()::text"
TRANSACTION_STATUS = "select pg_xact_status(%s::xid8)"
SINK_STAGE_OPEN = "select trunkline.sink_stage_open()"
SINK_PUT = "select trunkline.sink_put(%s::int4, %s, %s::int4, %s::int4, %s::int4, %s::int4, %s, %s, %s, %s, %s)"
SINK_COMMIT = (
    "select sink_no, state, was_known, full_segments from trunkline.sink_commit(%s, %s, %s, %s, %s, %s, %s, %s)"
)
SINK_STEP = "select state, full_segments from trunkline.sink_step(%s::int4, %s)"
SINK_DISCARD = "select trunkline.sink_discard(%s)"
SINK_SWEEP = "select trunkline.sink_sweep()"


class OutboxCall(NamedTuple):
    """A way into the outbox, as connections of others take it. All of them answer with an array: the transaction's id,
    and behind it the segment that is to be rolled, where there is one."""

    names: tuple[str, ...]
    by_name: str
    by_place: str
    binary: str
    """For psycopg. The others name types so that every driver understands them."""


def _outbox_call(statement: str, **types: str) -> OutboxCall:
    return OutboxCall(
        tuple(types),
        statement.format(", ".join(f"cast(:{name} as {kind})" for name, kind in types.items())),
        statement.format(", ".join(f"cast(%s as {kind})" for kind in types.values())),
        statement.format(", ".join(f"%b::{kind}" for kind in types.values())),
    )


OUTBOX_PUT = _outbox_call(
    "select array_remove(array[transaction_id, case when is_full then open_segment_id end], null)"
    " from trunkline.outbox_put({})",
    topic_id="int4",
    incarnation="int8",
    expected_partitions="int4",
    partitions="int4[]",
    counts="int4[]",
    keys="bytea[]",
    payloads="bytea[]",
    header_counts="int4[]",
    header_names="text[]",
    header_values="bytea[]",
)
OUTBOX_PUT_ONE = _outbox_call(
    "select trunkline.outbox_put_one({})",
    topic_id="int4",
    incarnation="int8",
    expected_partitions="int4",
    partition="int4",
    key="bytea",
    payload="bytea",
)
"""One record without headers: single values cost both sides less than arrays."""
PARKED_BEGIN = "select trunkline.parked_begin(%s::int4, %s::int4[], %s::int4[])"
PARKED_DUE = "select * from trunkline.parked_due(%s::int4, %s::int4[], %s::int4[], %s::int4)"
PARKED_FIND = "select place, first_offset from trunkline.parked_find(%s::int4[], %s::bytea[], %s::bytea[])"
PARKED_ADD = (
    "select trunkline.parked_add(%s::int4, %s::bytea, %s::bytea, %s::int4, %s, %s::int8, %s::int8[], %s::bytea[], "
    "%s::int4[], %s::text[], %s::bytea[], %s::timestamptz[])"
)
PARKED_DONE = "select trunkline.parked_done(%s::int4, %s::bytea, %s::bytea, %s::int8)"
PARKED_FAIL = "select trunkline.parked_fail(%s::int4, %s::bytea, %s::bytea, %s)"
PARKED_LIST = "select * from trunkline.parked_list(%s)"
PARKED_REDRIVE = "select * from trunkline.parked_redrive(%s, %s::bytea, %s::bytea, %s, %s)"
FAILURE_ADD = "select trunkline.failure_add(%s::int4, %s::int8, %s::int4, %s::bytea, %s::bytea, %s::int4, %s)"
FAILURE_DESCRIBE = "select * from trunkline.failure_describe(%s)"
INBOX_OPEN = "select trunkline.inbox_open(%s, %s::int8)"
INBOX_ADD = "select trunkline.inbox_add(%s, %s::bytea)"
INBOX_ADD_RECORD = "select trunkline.inbox_add(%s, convert_to(trunkline.record_id(%s, %s::int4, %s::int8), 'UTF8'))"
RECORD_ID = "select trunkline.record_id(%s, %s::int4, %s::int8)"
INBOX_SWEEP = "select trunkline.inbox_sweep()"
CONSTRAINTS_NOW = "set constraints all immediate"
CONSTRAINTS_LATER = "set constraints all deferred"
OUTBOX_SEQUENCE = "select trunkline.outbox_sequence(%s::int4[])"
OUTBOX_TABLE = "select to_regclass(%s)::oid"
OUTBOX_ATTACH = "select trunkline.outbox_attach(%s::oid, %s, %s, %s, %s, %s, %s)"
OUTBOX_DETACH = "select trunkline.outbox_detach(to_regclass(%s), %s)"
OUTBOX_SOURCES = "select * from trunkline.outbox_source_list()"
MEMBER_SESSION = "select trunkline.member_session(%s::int4), set_config('idle_session_timeout', %s, false)"
MEMBER_BEAT = "select trunkline.member_beat(%s::int4)"
MEMBER_JOIN = "select trunkline.member_join(%s::int4, %s::int4, %s, %s, %s, %s, %s)"
MEMBER_LEAVE = "select trunkline.member_leave(%s, %s)"
MEMBER_LIST = "select * from trunkline.member_list(%s)"
_LISTEN, _UNLISTEN = SQL("listen {};"), SQL("unlisten {};")


def listen(channels: Iterable[str], unlisten: Iterable[str] = ()) -> Composed:
    """LISTEN takes no parameters, and several go as one; channels are named by integer ids."""
    return Composed(
        [
            *(_LISTEN.format(Identifier(channel)) for channel in channels),
            *(_UNLISTEN.format(Identifier(channel)) for channel in unlisten),
        ]
    )


def topic_channel(topic_id: int) -> str:
    """Where a topic's records are announced to those who read all of it; the payload names partitions, or none for
    any."""
    return f"trunkline_t{topic_id}"


def partition_channel(topic_id: int, partition: int) -> str:
    """Where they are announced to those who hold one partition: a ring about another one must not wake them."""
    return f"trunkline_t{topic_id}_{partition}"


def whole_channel(topic_id: int) -> str:
    """Where those who hold some of its partitions are told that any of them may have more: by whoever does not know
    which, or which there are now, or has very many."""
    return f"trunkline_t{topic_id}_all"


def group_channel(group_id: int) -> str:
    """Where a group's members announce that something has changed among them."""
    return f"trunkline_g{group_id}"


AFTER_RESTORE = "select trunkline.schema_after_restore()"
KEEP_MEMORY = "octet_length(repeat(' ', 2097152))"
"""Two megabytes that are taken and given back: from then on the C library of the server's process keeps as much and
more when it is given back, instead of fetching it page by page for every batch (decision 4)."""
SESSION = (
    "select set_config('default_transaction_isolation', 'read committed', false), "
    f"set_config('lock_timeout', %s, false), set_config('timezone', 'UTC', false), {KEEP_MEMORY}"
)
SESSION_LOCAL = (
    "select set_config('lock_timeout', %s, true), set_config('idle_in_transaction_session_timeout', %s, true), "
    "set_config('timezone', 'UTC', true)"
)

OLDEST_CLIENT = 2
"""The oldest client that the schema of this package serves."""

INSTALL_LOCK = "select pg_advisory_xact_lock(1953656430, 1)"
META_EXISTS = "select to_regclass('trunkline.meta') is not null"
META_VERSION = "select schema_version from trunkline.meta where product = 'trunkline'"
SCHEMA_FINISH = "update trunkline.meta set schema_version = %s, oldest_client = %s"
SCHEMA_DROP = "drop schema trunkline cascade"
GRANTEES = "select kind, role_name from trunkline.grantee order by kind, role_name"
ROLE_ENSURE = "select trunkline.role_ensure(%s)"
ROLE_GRANT = "select trunkline.role_grant(%s, %s, %s)"
TOPIC_NAMES = "select name from trunkline.topic order by name"
SEGMENT_IDS = "select segment_id from trunkline.segment order by segment_id"
PLAIN_PATH = "select set_config('search_path', 'pg_catalog', true)"
