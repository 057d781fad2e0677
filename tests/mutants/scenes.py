"""Short plays on a log, each around one trap. They record a history, and do not know which log they play on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import psycopg

from tests.checker.history import History, Partition, Recorder, Seen, Sent
from tests.checker.invariants import violations
from tests.concurrency.sessions import APPEND, READ, WAIT_S, Session, Sessions, append_parameters, wait_until

Answer = Future[list[tuple[Any, ...]]]
Scene = Callable[["Stage"], None]

CLOCK = (
    "create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe"
    " as $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$"
)
BATCHES = (
    "select b.first_offset, b.payloads, b.append_time from trunkline.segment_{} b"
    " where b.partition = 0 and b.record_count > 0 order by b.first_offset"
)


class Log:
    """Ours, as anybody uses it from SQL. A mutant that is another log altogether overrides what differs."""

    maintenance: Sequence[str] = (
        "select trunkline.retention_release({topic})",
        "select trunkline.segment_drop({segment})",
    )

    def __init__(self, sessions: Sessions) -> None:
        self._admin = sessions.open("log", autocommit=True)
        self.topic_id = int(self._admin.run("select trunkline.topic_create('t', 2)")[0][0])

    def append(self, session: Session, payloads: Sequence[bytes], **others: Any) -> Answer:
        """Begin to append to partition 0 in the session's transaction; answers ``[([first_offset],)]``."""
        return session.start(APPEND, append_parameters(self.topic_id, {0: payloads}, **others))

    def read(self, session: Session, start: int) -> Future[tuple[list[Seen], int | None]]:
        """Begin to read partition 0; answers the records, and where to go on if the log says so."""

        def records() -> tuple[list[Seen], int | None]:
            rows = session.connection.execute(READ, [self.topic_id, 0, start, 1000]).fetchall()
            return [one for row in rows for one in _unpacked(row[0], row[3], row[2]) if one.offset >= start], None

        return session.do(records)

    def content(self) -> Partition:
        """What is stored, straight from the tables: a reader might refuse to show what is wrong."""
        records: list[Seen] = []
        for (segment_id,) in self._admin.run("select segment_id from trunkline.segment order by 1"):
            if self._admin.run("select to_regclass(%s)", [f"trunkline.segment_{segment_id}"])[0][0]:
                for row in self._admin.run(BATCHES.format(segment_id)):
                    records += _unpacked(*row)
        start, end = self._admin.run('select start, "end" from trunkline.log_range(%s, 0)', [self.topic_id])[0]
        return Partition(start, end, tuple(record for record in records if record.offset >= start))


def _unpacked(first: int, payloads: Sequence[bytes], time: Any) -> list[Seen]:
    return [Seen(first + index, payload, time) for index, payload in enumerate(payloads)]


class Stage:
    """Sessions, a log, and the recorder. Errors that no caller of a sound log gets are kept as findings."""

    def __init__(self, sessions: Sessions, log: Log) -> None:
        self.sessions = sessions
        self.log = log
        self.recorder = Recorder()
        self.errors: set[str] = set()
        self.admin = sessions.open("admin", autocommit=True)
        self.cursor = 1
        self._reader = sessions.open("reader", autocommit=True)

    def session(self, name: str) -> Session:
        return self.sessions.open(name)

    def begin(self, session: Session, payloads: Sequence[bytes], **others: Any) -> Answer:
        """Begin an append, and return once it is done or waits for somebody."""
        answer = self.log.append(session, payloads, **others)
        self.settle(session, answer)
        return answer

    def settle(self, session: Session, answer: Future[Any]) -> None:
        wait_until(
            lambda: answer.done() or self.sessions.watcher.is_waiting(session), f"{session.name} is done or waits"
        )

    def commit(self, session: Session, answer: Answer, payloads: Sequence[bytes]) -> None:
        """Commit what was appended, and record its places; an error that no sound log gives is a finding."""
        sent = [Sent(payload) for payload in payloads]
        invoked = self.recorder.tick()
        try:
            ((first,),) = answer.result(WAIT_S)[0]
            session.commit()
        except psycopg.Error as error:
            session.rollback()
            self.recorder.failed(session.name, sent, invoked)
            # What a REPEATABLE READ caller is promised: try again.
            if error.sqlstate != "40001":
                self.errors.add(f"error {error.sqlstate}")
        else:
            self.recorder.published(session.name, sent, invoked, [(0, first + n) for n in range(len(sent))])

    def publish(self, session: Session, payloads: Sequence[bytes], **others: Any) -> None:
        self.commit(session, self.begin(session, payloads, **others), payloads)

    def begin_poll(self) -> Callable[[], None]:
        """Begin to read from the cursor on; call what it returns to take the answer and move the cursor."""
        invoked, start = self.recorder.tick(), self.cursor
        answer = self.log.read(self._reader, start)
        self.settle(self._reader, answer)

        def take() -> None:
            try:
                seen, cursor = answer.result(WAIT_S)
            except psycopg.Error as error:
                self._refused(error, start, invoked)
            else:
                self.cursor = self.recorder.read("reader", 0, start, invoked, seen, cursor=cursor).end

        return take

    def poll(self) -> None:
        self.begin_poll()()

    def _refused(self, error: psycopg.Error, start: int, invoked: int) -> None:
        if error.sqlstate != "TL005":
            self.errors.add(f"error {error.sqlstate}")
            return
        first, _, last = (error.diag.message_detail or "").strip("[)").partition(", ")
        self.recorder.out_of_range("reader", 0, start, invoked, (int(first), int(last)))
        self.cursor = int(first)

    def roll(self) -> int:
        """Open the next segment; the id of the one before."""
        old = int(self.admin.run("select open_segment_id from trunkline.topic")[0][0])
        self.admin.run("select trunkline.segment_roll(%s, true)", [old])
        return old

    def seal(self, segment_id: int) -> None:
        self.admin.run("select trunkline.segment_seal(%s)", [segment_id])


def findings(scene: Scene, sessions: Sessions, log: Log) -> set[str]:
    """Play a scene; the kinds of what is wrong with what it recorded. Nothing: the log is sound."""
    stage = Stage(sessions, log)
    scene(stage)
    history: History = stage.recorder.finish({0: log.content()})
    found = violations(history)
    print("; ".join(map(str, [*found, *stage.errors])) or "clean")
    return {violation.kind for violation in found} | stage.errors


def late_commit(stage: Stage) -> None:
    """After a first batch, A appends and commits last; B, who came later, is longer. A reader polls at every step."""
    a, b = stage.session("a"), stage.session("b")
    stage.publish(a, [b"0"])
    of_a, of_b = [b"a1", b"a2", b"a3"], [b"b1", b"b2", b"b3", b"b4", b"b5"]
    appending_a = stage.begin(a, of_a)
    appending_b = stage.begin(b, of_b)
    if appending_b.done():
        stage.commit(b, appending_b, of_b)
    stage.poll()
    stage.commit(a, appending_a, of_a)
    stage.poll()
    if b"b1" not in _recorded(stage):
        stage.commit(b, appending_b, of_b)
    stage.poll()


def reader_meets_writer(stage: Stage) -> None:
    """A reader polls while a writer holds the partition; the writer commits; the reader goes on where it was told."""
    a = stage.session("a")
    appending = stage.begin(a, [b"1", b"2", b"3"])
    take = stage.begin_poll()
    stage.commit(a, appending, [b"1", b"2", b"3"])
    take()
    stage.publish(a, [b"4"])
    stage.poll()
    stage.poll()


def time_runs(stage: Stage) -> None:
    """B's transaction is older than A's and appends after it; then the clock steps back an hour."""
    a, b = stage.session("a"), stage.session("b")
    b.run("select now()")
    stage.publish(a, [b"a"])
    stage.publish(b, [b"b"])
    stage.admin.run(CLOCK)
    stage.publish(a, [b"c"])
    stage.poll()


def everything_expires(stage: Stage) -> None:
    """Retention takes all that was published; the next record stands after it."""
    a = stage.session("a")
    stage.admin.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
    stage.publish(a, [b"1", b"2", b"3"])
    stage.poll()
    old = stage.roll()
    stage.seal(old)
    stage.admin.run("select trunkline.retention_release(%s)", [stage.log.topic_id])
    stage.admin.run("select trunkline.segment_drop(%s)", [old])
    stage.publish(a, [b"4", b"5"])
    stage.poll()


def reader_meets_retention(stage: Stage) -> None:
    """A reader at the start reads between the steps of retention."""
    a = stage.session("a")
    stage.admin.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
    stage.publish(a, [b"1", b"2", b"3"])
    old = stage.roll()
    stage.seal(old)
    stage.publish(a, [b"4"])
    for step in stage.log.maintenance:
        stage.cursor = 1
        stage.admin.run(step.format(topic=stage.log.topic_id, segment=old))
        stage.poll()


PRODUCER = {"producer": "00000000-0000-0000-0000-00000000000a", "epoch": 0}


def lost_reply(stage: Stage) -> None:
    """A numbered batch is committed, its producer does not know; it sends the batch again."""
    _retry_after(stage, lambda: None)


def lost_reply_and_seal(stage: Stage) -> None:
    """As before, and the segment that holds the first attempt is sealed in between."""
    _retry_after(stage, lambda: stage.seal(stage.roll()))


def _retry_after(stage: Stage, meanwhile: Callable[[], None]) -> None:
    a, retry = stage.session("a"), stage.session("retry")
    numbered = {**PRODUCER, "sequences": [1]}
    stage.log.append(a, [b"1"], **numbered).result(WAIT_S)
    a.commit()
    stage.recorder.unknown("a", [Sent(b"1")], stage.recorder.tick())
    meanwhile()
    stage.publish(retry, [b"1"], **numbered)
    stage.publish(retry, [b"2"], **{**PRODUCER, "sequences": [2]})
    stage.poll()


def old_snapshot(stage: Stage) -> None:
    """A REPEATABLE READ caller appends after its partition has moved to another segment and was written there."""
    a, caller = stage.session("a"), stage.session("caller")
    stage.publish(a, [b"1"])
    caller.run("set transaction isolation level repeatable read")
    caller.run("select 1 from trunkline.meta")
    stage.roll()
    stage.publish(a, [b"2"])
    stage.publish(caller, [b"caller"])
    stage.poll()


def opposite_orders(stage: Stage) -> None:
    """Two writers of partitions 0 and 1 name them in opposite orders, and get to hold one each. A refusal that
    names the order is followed."""
    hold_0, hold_1 = stage.session("hold 0"), stage.session("hold 1")
    a, b = stage.session("a"), stage.session("b")
    for number, holder in enumerate((hold_0, hold_1)):
        holder.append(stage.log.topic_id, {number: [b"held"]}).result(WAIT_S)
    both = {0: [b"x"], 1: [b"y"]}
    of_a = a.append(stage.log.topic_id, both)
    stage.settle(a, of_a)
    of_b = b.append(stage.log.topic_id, dict(reversed(both.items())))
    stage.settle(b, of_b)
    if of_b.done():
        b.rollback()
        of_b = b.append(stage.log.topic_id, both)
        stage.settle(b, of_b)
    hold_1.rollback()
    wait_until(lambda: not stage.sessions.watcher.blocked_by(b, hold_1), "b has gone on")
    stage.settle(b, of_b)
    hold_0.rollback()
    for session, answer in ((a, of_a), (b, of_b)):
        try:
            answer.result(WAIT_S)
        except psycopg.Error as error:
            stage.errors.add(f"error {error.sqlstate}")
        session.rollback()


def _recorded(stage: Stage) -> set[bytes]:
    return {sent.payload for publish in stage.recorder.history.publishes() for sent in publish.records}
