"""A driver to begin with: queues in a SQLite file. ``acme://orders?file=/var/lib/shop.db`` is the topic ``orders``.

Replace what is SQLite by your broker. The eight methods are the driver; what each promises is written in
``trunkline.portable.sync.driver``. This one has the blocking form only, so asyncio is refused at open.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from trunkline.errors import ClaimLost, Closed, InvalidArgument, NotFound, TrunklineError, Unavailable
from trunkline.portable import Capabilities, Driver, Incoming, Outgoing, Target

SCHEMA = """
create table if not exists topic (name text primary key);
create table if not exists subscription (topic text, name text, ack_deadline_s real, primary key (topic, name));
create table if not exists message (
    id integer primary key autoincrement, topic text, subscription text, message_id text, body blob, key blob,
    attributes text, attempt integer not null default 0, held_until real not null default 0, ack_id text);
"""
CAPABILITIES = Capabilities(acks=True, nack=True, attempts=True, ack_deadline=True)
LOOK_EVERY_S = 0.01


# -- the operator's, not the driver's --


def create_topic(file: str, topic: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(SCHEMA)
        connection.execute("insert into topic values (?)", (topic,))


def create_subscription(file: str, topic: str, name: str, ack_deadline_s: float) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("insert into subscription values (?, ?, ?)", (topic, name, ack_deadline_s))


# -- step 1: the driver --


class File:
    """One connection, which calls at the same time take turns on. SQLite's errors become Trunkline's."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.executescript(SCHEMA)

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        try:
            if self._is_closed:
                # A receive may be under way while it is closed.
                raise Closed("the file was closed")
            self._connection.execute("begin immediate")
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.OperationalError):
                raise Unavailable(f"the file cannot be used now: {error}") from error
            raise
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._connection.execute("commit" if error is None else "rollback")
        finally:
            self._lock.release()
        if isinstance(error, sqlite3.OperationalError):
            raise Unavailable(f"the file cannot be used now: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._connection.close()


class AcmeTopic:
    capabilities = CAPABILITIES

    def __init__(self, file: File, name: str) -> None:
        self.native: Any = file
        self._file = file
        self._name = name

    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        with self._file as connection:
            select = "select topic, name from subscription where topic = ?"
            places = connection.execute(select, (self._name,)).fetchall()
            ids: list[str] = []
            for each in messages:
                ids.append(f"{time.time_ns()}-{len(ids)}")
                row = (ids[-1], each.body, each.key, json.dumps(each.attributes))
                connection.executemany(
                    "insert into message (topic, subscription, message_id, body, key, attributes) "
                    "values (?, ?, ?, ?, ?, ?)",
                    [(*place, *row) for place in places],
                )
        return ids

    def close(self) -> None:
        self._file.close()


class AcmeSubscription:
    capabilities = CAPABILITIES

    def __init__(self, file: File, topic: str, name: str, ack_deadline_s: float) -> None:
        self.native: Any = file
        self.ack_deadline_s: float | None = ack_deadline_s
        self._held_s = ack_deadline_s
        self._file = file
        self._place = (topic, name)
        self._closed = threading.Event()

    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        deadline = time.monotonic() + wait_s
        while not self._closed.is_set():
            found = self._claim(max_messages)
            if found or time.monotonic() >= deadline:
                return found
            self._closed.wait(LOOK_EVERY_S)
        return []

    def _claim(self, max_messages: int) -> list[Incoming]:
        now = time.time()
        with self._file as connection:
            rows = connection.execute(
                "select id, body, key, attributes, message_id, attempt from message "
                "where topic = ? and subscription = ? and held_until <= ? order by id limit ?",
                (*self._place, now, max_messages),
            ).fetchall()
            found = []
            for number, body, key, attributes, message_id, attempt in rows:
                ack_id = f"{number}/{attempt + 1}/{time.monotonic_ns()}"
                connection.execute(
                    "update message set attempt = attempt + 1, held_until = ?, ack_id = ? where id = ?",
                    (now + self._held_s, ack_id, number),
                )
                found.append(Incoming(body, ack_id, key, json.loads(attributes), message_id, attempt + 1))
        return found

    def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        return self._settle("delete from message where ack_id = ?", ack_ids)

    def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        assert not delay_s, "without the capability nack_delay there is none"
        return self._settle("update message set held_until = 0, ack_id = null where ack_id = ?", ack_ids)

    def release(self, ack_ids: Sequence[Any]) -> None:
        if not self._closed.is_set():
            self._settle(
                "update message set held_until = 0, ack_id = null, attempt = attempt - 1 where ack_id = ?", ack_ids
            )

    def _settle(self, statement: str, ack_ids: Sequence[Any]) -> list[TrunklineError | None]:
        with self._file as connection:
            return [
                None
                if connection.execute(statement, (ack_id,)).rowcount
                else ClaimLost(f"{ack_id} is held by nobody here")
                for ack_id in ack_ids
            ]

    def close(self) -> None:
        self._closed.set()
        self._file.close()


class AcmeOpener:
    def open_topic(self, target: Target) -> AcmeTopic:
        file = _file(target)
        with file as connection:
            found = connection.execute("select 1 from topic where name = ?", (_topic(target),)).fetchone()
        if not found:
            file.close()
            raise NotFound(f"there is no topic {_topic(target)}")
        return AcmeTopic(file, _topic(target))

    def open_subscription(self, target: Target) -> AcmeSubscription:
        name = target.parameters.get("subscription")
        if not name:
            raise InvalidArgument("an acme URL must say which subscription: acme://orders?file=…&subscription=emails")
        file = _file(target)
        with file as connection:
            found = connection.execute(
                "select ack_deadline_s from subscription where topic = ? and name = ?", (_topic(target), name)
            ).fetchone()
        if not found:
            file.close()
            raise NotFound(f"topic {_topic(target)} has no subscription {name}")
        return AcmeSubscription(file, _topic(target), name, target.ack_deadline_s or found[0])


def _file(target: Target) -> File:
    if "file" not in target.parameters:
        raise InvalidArgument("an acme URL must say in which file: acme://orders?file=/var/lib/orders.db")
    return File(target.parameters["file"])


def _topic(target: Target) -> str:
    return target.host + target.path


# -- step 2: its declaration, which an entry point of the group trunkline.drivers names --

DRIVER = Driver(
    name="acme",
    capabilities=CAPABILITIES,
    sync=AcmeOpener(),
    topic_parameters={"file": str},
    subscription_parameters={"file": str, "subscription": str},
)
