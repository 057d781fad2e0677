"""Queues as an operator sees and sets them: values, and how they are read and changed. Findings: queue_findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from time import monotonic
from typing import Any, Literal

import msgspec

from trunkline.client.sync.connection import open_connection
from trunkline.engine.redriving import GROUP_PREFIX, memory_name
from trunkline.errors import AlreadyExists, Conflict, InvalidArgument, NotFound, OffsetOutOfRange
from trunkline.nearest import nearest_name
from trunkline.settings import ClientSettings
from trunkline.status.facts import Ask

LIST = "select topic_name, name, settings, created_at from trunkline.queue_list(%s)"
DESCRIBE = "select * from trunkline.queue_describe(%s, %s)"
CLAIMS = (
    "select partition, claim_no, offsets::text, record_count, attempt, holder, claimed_at, deadline "
    "from trunkline.queue_claims(%s, %s)"
)
ENTER = (
    "select queue_id from trunkline.queue_enter("
    "%s::int4, %s, true, %s, %s::float8, %s::int4, %s, %s::boolean, %s::float8, %s::boolean)"
)
ALTER = "select trunkline.queue_alter(%s, %s, %s::jsonb)"
PAUSE = "select trunkline.queue_pause(%s, %s, %s)"
RESUME = "select trunkline.queue_resume(%s, %s)"
DELETE = "select trunkline.queue_delete(%s, %s)"
DROP_OLD = "select trunkline.queue_drop_old()"
TOPIC = "select topic_id from trunkline.topic_list(%s)"
TOPIC_NAMES = "select name from trunkline.topic_list()"
APPENDED = "select append_time from trunkline.log_read(%s::int4, %s::int4, %s, 1, 1) limit 1"

SETTINGS = (
    "ack_deadline_s",
    "max_attempts",
    "dead_letter",
    "ordered_by_key",
    "pause_above",
    "bury_expired",
    "table_bytes",
)
_IN_SQL = {"ordered_by_key": "is_ordered"}


class QueueSettings(msgspec.Struct, frozen=True):
    """What is set of a queue, and whether it is paused."""

    ack_deadline_s: float
    max_attempts: int | None
    dead_letter: str | None
    ordered_by_key: bool = msgspec.field(name="is_ordered")
    pause_above: float | None
    bury_expired: bool
    paused_at: datetime | None = None
    pause_reason: str | None = None


class QueuePartition(msgspec.Struct, frozen=True):
    """A queue in one partition.

    Below ``floor`` everything is done; up to ``frontier`` everything was claimed at least once, or set aside; ``end``
    is the next offset of the log. ``in_flight`` records are held by readers, ``waiting`` ones wait until they are due;
    ``next_due`` is when somebody has to look at one of either. ``expired`` were taken by retention before they were
    done. ``ready_since`` is when the first of those that nobody has claimed yet was appended, where somebody looked.
    """

    partition: int
    start: int
    floor: int
    frontier: int
    end: int
    in_flight: int
    waiting: int
    next_due: datetime | None
    oldest_claim_at: datetime | None
    expired: int
    table_bytes: int
    ready_since: datetime | None = None

    @property
    def first_ready(self) -> int:
        return max(self.frontier + 1, self.start)

    @property
    def ready(self) -> int:
        """Records that nobody has claimed yet."""
        return max(0, self.end - self.first_ready)


class QueueStatus(msgspec.Struct, frozen=True):
    """A queue with its settings and partitions; the counts are sums over these."""

    topic: str
    name: str
    ack_deadline_s: float
    max_attempts: int | None
    dead_letter: str | None
    ordered_by_key: bool
    pause_above: float | None
    bury_expired: bool
    paused_at: datetime | None
    pause_reason: str | None
    created_at: datetime
    ready: int
    in_flight: int
    waiting: int
    expired: int
    partitions: list[QueuePartition]

    @property
    def next_due(self) -> datetime | None:
        return min((each.next_due for each in self.partitions if each.next_due is not None), default=None)

    @property
    def ready_since(self) -> datetime | None:
        return min((each.ready_since for each in self.partitions if each.ready_since is not None), default=None)


class OpenClaim(msgspec.Struct, frozen=True):
    """Records that one reader holds until the deadline, or that wait until then (``holder`` is None)."""

    partition: int
    claim_no: int
    offsets: str
    record_count: int
    attempt: int
    holder: str | None
    claimed_at: datetime | None
    deadline: datetime | None


class DeadLetterTopic(msgspec.Struct, frozen=True):
    """A topic of dead letters. ``queues`` put theirs there; ``letters`` are in the log, of which ``waiting`` stand
    behind the last one up to which all were redriven or purged. None where the topic does not exist."""

    topic: str
    queues: list[str]
    letters: int | None
    waiting: int | None
    newest_at: datetime | None = None


@contextmanager
def asking(url: str, settings: ClientSettings | None = None) -> Iterator[Ask]:
    """One connection, and how statements are run on it."""
    settings = settings or ClientSettings.from_environment()
    connection = open_connection(url, settings, monotonic() + settings.deadline_s)
    try:
        yield connection.call
    finally:
        connection.close()


# -- looking --


def read_queues(ask: Ask, topic: str | None = None) -> list[QueueStatus]:
    """Every queue, or those of a topic, as they stand now."""
    found: list[QueueStatus] = []
    for topic_name, name, settings, created_at in ask(LIST, [topic]):
        # Whoever deletes one meanwhile does not spoil the rest.
        with suppress(NotFound):
            found.append(_status(topic_name, name, settings, created_at, ask(DESCRIBE, [topic_name, name])))
    return found


def read_queue(ask: Ask, topic: str, name: str) -> QueueStatus:
    """One queue; NotFound where there is none."""
    rows = ask(DESCRIBE, [topic, name])
    for topic_name, found, settings, created_at in ask(LIST, [topic]):
        if found == name:
            return _status(topic_name, found, settings, created_at, rows)
    raise NotFound(f"topic {topic} has no queue {name}; `trunkline queue list` shows those that there are")


def read_claims(ask: Ask, topic: str, name: str) -> list[OpenClaim]:
    return [OpenClaim(*row) for row in ask(CLAIMS, [topic, name])]


def with_ready_since(ask: Ask, queue: QueueStatus) -> QueueStatus:
    """The queue, with when the first record that nobody has claimed was appended."""
    ((topic_id,),) = ask(TOPIC, [queue.topic])
    parts = [
        msgspec.structs.replace(each, ready_since=_appended(ask, topic_id, each)) if each.ready else each
        for each in queue.partitions
    ]
    return msgspec.structs.replace(queue, partitions=parts)


def _appended(ask: Ask, topic_id: int, part: QueuePartition) -> datetime | None:
    with suppress(NotFound, OffsetOutOfRange):  # its topic, or the record, went meanwhile
        for (append_time,) in ask(APPENDED, [topic_id, part.partition, part.first_ready]):
            return append_time  # type: ignore[no-any-return]
    return None


def _status(
    topic: str, name: str, settings: Mapping[str, Any], created_at: datetime, rows: Sequence[Sequence[Any]]
) -> QueueStatus:
    known = msgspec.convert(settings, QueueSettings)
    parts = [QueuePartition(*row) for row in rows]
    return QueueStatus(
        topic=topic,
        name=name,
        **msgspec.structs.asdict(known),
        created_at=created_at,
        ready=sum(each.ready for each in parts),
        in_flight=sum(each.in_flight for each in parts),
        waiting=sum(each.waiting for each in parts),
        expired=sum(each.expired for each in parts),
        partitions=parts,
    )


# -- changing --


def create_queue(
    ask: Ask, topic: str, name: str, settings: Mapping[str, Any], *, start: Literal["earliest", "latest"] = "earliest"
) -> QueueStatus:
    """Create a queue. AlreadyExists where there is one of that name."""
    wanted = _in_sql(settings)
    ((topic_id,),) = ask(TOPIC, [topic])
    if any(found == name for _, found, *_ in ask(LIST, [topic])):
        raise AlreadyExists(f"topic {topic} has a queue {name}; see: trunkline queue describe {topic} {name}")
    names = ("ack_deadline_s", "max_attempts", "dead_letter", "is_ordered", "pause_above", "bury_expired")
    ask(ENTER, [topic_id, name, start, *(wanted.get(each) for each in names)])
    if "table_bytes" in wanted:
        ask(ALTER, [topic, name, _json({"table_bytes": wanted["table_bytes"]})])
    return read_queue(ask, topic, name)


def alter_queue(ask: Ask, topic: str, name: str, settings: Mapping[str, Any]) -> QueueStatus:
    """Change settings by their names; None puts one back to what it is by default."""
    ask(ALTER, [topic, name, _json(_in_sql(settings))])
    return read_queue(ask, topic, name)


def pause_queue(ask: Ask, topic: str, name: str, reason: str | None = None) -> QueueStatus:
    """Let nobody claim from it. What is held can still be settled."""
    if reason is not None and "\0" in reason:
        raise InvalidArgument("a reason is text without NUL")
    ask(PAUSE, [topic, name, reason])
    return read_queue(ask, topic, name)


def resume_queue(ask: Ask, topic: str, name: str) -> bool:
    """Let readers claim again; whether it was paused."""
    ((was_paused,),) = ask(RESUME, [topic, name])
    return bool(was_paused)


def delete_queue(ask: Ask, topic: str, name: str) -> None:
    """Delete it with what is known of its claims. The records stay."""
    ask(DELETE, [topic, name])
    with suppress(Conflict):  # somebody still looks at its tables: whoever rolls next drops them
        ask(DROP_OLD)


def check_settings(names: Sequence[str]) -> None:
    """Refuse what is no setting of a queue, and name the nearest."""
    for name in names:
        if name not in SETTINGS:
            raise InvalidArgument(f"a queue has no setting {name!r}; {nearest_name(name, SETTINGS)}")


def missing_topic(ask: Ask, name: str | None) -> bool:
    """Whether a queue names a dead letter topic that does not exist."""
    return name is not None and (name,) not in ask(TOPIC_NAMES)


def _in_sql(settings: Mapping[str, Any]) -> dict[str, Any]:
    check_settings(list(settings))
    return {_IN_SQL.get(name, name): value for name, value in settings.items()}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# -- dead letters --


RANGES = 'select partition, start, "end" from trunkline.log_range(%s::int4)'
CURSORS = "select topic, partition, cursor from trunkline.group_describe(%s)"
GROUPS = "select name from trunkline.group_list()"


def read_dead_letter_topics(ask: Ask) -> list[DeadLetterTopic]:
    """The topics that are some queue's dead letters, and those that were redriven or purged."""
    queues: dict[str, list[str]] = {}
    for topic, name, settings, _ in ask(LIST, [None]):
        if settings["dead_letter"] is not None:
            queues.setdefault(settings["dead_letter"], []).append(f"{topic}/{name}")
    known = {name for (name,) in ask(TOPIC_NAMES)}
    groups = {name for (name,) in ask(GROUPS) if name.startswith(GROUP_PREFIX)}
    seen = {name for name in known if memory_name(name) in groups}
    return [
        _dead_letter_topic(ask, name, queues.get(name, []), exists=name in known) for name in sorted({*queues, *seen})
    ]


def _dead_letter_topic(ask: Ask, topic: str, queues: list[str], *, exists: bool) -> DeadLetterTopic:
    if not exists:
        return DeadLetterTopic(topic, queues, None, None)
    ((topic_id,),) = ask(TOPIC, [topic])
    floors: dict[int, int] = {}
    with suppress(NotFound):
        floors = {part: cursor for name, part, cursor in ask(CURSORS, [memory_name(topic)]) if name == topic}
    letters = waiting = 0
    newest: list[datetime] = []
    for partition, start, end in ask(RANGES, [topic_id]):
        letters += end - start
        waiting += end - max(start, floors.get(partition, start))
        if end > start:
            with suppress(OffsetOutOfRange):
                newest += [time for (time,) in ask(APPENDED, [topic_id, partition, end - 1])]
    return DeadLetterTopic(topic, queues, letters, waiting, max(newest, default=None))


# -- values that people write --


def parse_rate(text: str) -> float:
    """``100/s``, ``10/m``, or a number a second."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)(?:/(s|m|h))?", text, re.ASCII)
    rate = float(found[1]) / {"s": 1, "m": 60, "h": 3600}[found[2] or "s"] if found else 0.0
    if not rate:
        raise InvalidArgument(f"not a rate: {text!r}; write for example 100/s or 10/m")
    return rate
