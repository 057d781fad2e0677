"""Logs that are known to be wrong: ours with one promise broken, or the design that everybody writes first."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.checker.history import Partition, Seen
from tests.concurrency.sessions import Session, Sessions
from tests.mutants import scenes
from tests.mutants.scenes import Answer, Log, Scene
from trunkline.sql import script


@dataclass(frozen=True)
class Mutant:
    """What is changed, in which scene it shows, and as what. ``changes``: function, text in it, text instead."""

    name: str
    scene: Scene
    caught_as: set[str]
    changes: Sequence[tuple[str, str, str]] = ()
    statements: Sequence[str] = ()
    log: type[Log] = Log


def install_mutant(url: str, mutant: Mutant) -> None:
    install_changes(url, mutant.changes, mutant.statements)


NOBODY_FLUSHES = {"wal_writer_delay": "10s", "autovacuum": "off"}
"""For a server on which what a session has not flushed itself is gone after ``kill -9``."""
WAL_WRITER = "select pid from pg_stat_activity where backend_type = 'walwriter'"


def stop_wal_writer(session: Session) -> None:
    """Until the server is killed. It would flush every ten seconds, and the test would be too slow now and then."""
    ((pid,),) = session.run(WAL_WRITER)
    os.kill(pid, signal.SIGSTOP)


def install_changes(url: str, changes: Sequence[tuple[str, str, str]], statements: Sequence[str] = ()) -> None:
    """Replace functions of the schema by the changed ones. Fails where the text to be changed is not there."""
    texts: dict[str, str] = {}
    for function, old, new in changes:
        text = texts.get(function) or script.functions()[function]
        changed, count = re.subn(_loosely(old), lambda _, new=new: new, text)  # type: ignore[misc]
        assert count == 1, f"{function} has {count} times what the mutant changes: {old}"
        texts[function] = changed
    with psycopg.connect(url, autocommit=True) as connection:
        for text in texts.values():
            connection.execute(text.replace("create function", "create or replace function", 1).encode())
        for statement in statements:
            connection.execute(statement.encode())


def _loosely(text: str) -> str:
    """A pattern for the text that does not mind how it is broken into lines."""
    return r"\s+".join(re.escape(word) for word in text.split())


LOCK = (
    "if not pg_try_advisory_xact_lock(trunkline.lock_class(), partition_id) then"
    " perform trunkline.lock_wait(trunkline.lock_class(), partition_id); end if;"
)
NO_LOCK = (
    ("log_append_part", LOCK, ""),
    ("log_append_closely", "perform trunkline.lock_partition(partition_id);", ""),
    ("segment_define", LOCK, ""),
)
ADD_INDEX_ON_LAST_OFFSET = (
    "segment_create",
    "primary key (partition, first_offset) )",
    "last_offset bigint generated always as (first_offset + record_count - 1) stored, unique (partition, last_offset))",
)
SILENT_READ = (
    "log_read",
    (
        "perform trunkline.log_place(topic_id, partition, start);"
        " raise exception 'records of this transaction''s snapshot have been dropped by retention'"
        " using errcode = '40001', hint = 'run the transaction again, or read in READ COMMITTED';"
    ),
    "return;",
)


class SerialLog(Log):
    """A table with a serial id, read by ``id > cursor``."""

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(sessions)
        self._admin.run(
            "create table serial_log"
            " (id bigserial primary key, payload bytea, append_time timestamptz default clock_timestamp())"
        )

    def append(self, session: Session, payloads: Sequence[bytes], **others: Any) -> Answer:
        return session.start(
            "with written as (insert into serial_log (payload) select unnest(%s::bytea[]) returning id)"
            " select array[min(id)] from written",
            [list(payloads)],
        )

    def read(self, session: Session, start: int) -> Future[tuple[list[Seen], int | None]]:
        return session.do(lambda: (self._rows(session, start), None))

    def content(self) -> Partition:
        records = tuple(self._rows(self._admin, 1))
        return Partition(1, len(records) + 1, records)

    def _rows(self, session: Session, start: int) -> list[Seen]:
        statement = "select id, payload, append_time from serial_log where id >= %s order by id"
        return [Seen(*row) for row in session.connection.execute(statement, [start]).fetchall()]


class OneStatementLog(Log):
    """Reads tip and rows in one statement, the tip through a VOLATILE function that locks first."""

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(sessions)
        self._admin.run(
            "create function tip_of(topic integer) returns bigint language plpgsql volatile as $$ begin"
            " perform trunkline.lock_partition(p.partition_id) from trunkline.topic_partition p"
            " where p.topic_id = topic and p.partition = 0;"
            " return (select r.end - 1 from trunkline.log_range(topic, 0) r); end $$"
        )
        self._segment = self._admin.run("select open_segment_id from trunkline.topic")[0][0]

    def read(self, session: Session, start: int) -> Future[tuple[list[Seen], int | None]]:
        def records() -> tuple[list[Seen], int | None]:
            rows = session.connection.execute(
                "select t.tip, b.first_offset, b.payloads, b.append_time from tip_of(%s) t(tip)"
                f" left join trunkline.segment_{self._segment} b on b.partition = 0 and b.first_offset >= %s"
                " and b.first_offset <= t.tip order by b.first_offset",
                [self.topic_id, start],
            ).fetchall()
            seen = [Seen(row[1] + index, payload, row[3]) for row in rows for index, payload in enumerate(row[2] or ())]
            return seen, rows[0][0] + 1

        return session.do(records)


class DropFirstLog(Log):
    """The steps of retention in the wrong order: the table goes, and the log start moves afterwards."""

    maintenance = ("drop table trunkline.segment_{segment}", "select trunkline.retention_release({topic})")


MUTANTS = [
    Mutant("a serial id as cursor", scenes.late_commit, {"poll-skip"}, log=SerialLog),
    Mutant("the tip is read without the partition's lock", scenes.late_commit, {"error 23505"}, NO_LOCK),
    Mutant(
        "lock and tip in one statement",
        scenes.late_commit,
        {"error 23505"},
        [
            *NO_LOCK,
            (
                "segment_define",
                "where b.partition = place order by b.first_offset desc limit 1;",
                (
                    "where b.partition = place and (select true from pg_advisory_xact_lock("
                    "trunkline.lock_class(), partition_id)) order by b.first_offset desc limit 1;"
                ),
            ),
        ],
    ),
    Mutant(
        "a unique key on the last offset, and no lock",
        scenes.late_commit,
        {"inconsistent-offsets"},
        [*NO_LOCK, ADD_INDEX_ON_LAST_OFFSET],
    ),
    Mutant("tip and rows in one statement", scenes.reader_meets_writer, {"poll-skip"}, log=OneStatementLog),
    Mutant(
        "now() as append time",
        scenes.time_runs,
        {"append-time-order"},
        [
            ("segment_define", "greatest(tip.append_time, trunkline.clock_now())", "now()"),
            ("segment_write", "greatest($2, trunkline.clock_now())", "now()"),
        ],
    ),
    Mutant(
        "the clock as append time, whatever stands before",
        scenes.time_runs,
        {"append-time-order"},
        [
            ("segment_define", "greatest(tip.append_time, trunkline.clock_now())", "trunkline.clock_now()"),
            ("segment_write", "greatest($2, trunkline.clock_now())", "trunkline.clock_now()"),
        ],
    ),
    Mutant(
        "max(offset) + 1 over the rows that are left",
        scenes.everything_expires,
        {"inconsistent-offsets"},
        [("partition_tip", "select p.partition, sp.first_offset,", "select p.partition, 1::bigint,")],
    ),
    Mutant(
        "a producer whose sequence nobody looks at",
        scenes.lost_reply,
        {"duplicate"},
        [
            (
                "segment_define",
                "(producer is null or (tip.producer_no = producer and tip.producer_sequence = sequence - 1))",
                "true",
            ),
            ("segment_create", "'create unique index %I", "'create index %I"),
        ],
    ),
    Mutant(
        "a producer's sequence that is forgotten when its segment is sealed",
        scenes.lost_reply_and_seal,
        {"duplicate"},
        [("segment_seal", "and x.producer_sequence > r.last_sequence", "and false")],
    ),
    Mutant(
        "a segment that is not closed when its partition moves on",
        scenes.old_snapshot,
        {"inconsistent-offsets"},
        [
            (
                "partition_close",
                "values ($1, $2, 0, 0, $3, 0, 0, 0, 0, ''{}'')",
                "select $1, $2, 0, 0, $3, 0, 0, 0, 0, ''{}'' where false",
            )
        ],
    ),
    Mutant(
        "a table that is dropped before the log start has moved",
        scenes.reader_meets_retention,
        {"error 40001"},
        log=DropFirstLog,
    ),
    Mutant(
        "the same, and a reader that takes a missing table for the end",
        scenes.reader_meets_retention,
        {"short-read"},
        [SILENT_READ],
        log=DropFirstLog,
    ),
    Mutant(
        "partitions locked in the order in which they are named",
        scenes.opposite_orders,
        {"error 40P01"},
        [("log_check_parts", "where (partitions[i] > partitions[i - 1]) is not true", "where false")],
    ),
]
