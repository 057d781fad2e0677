"""Business transactions: a row, an event, some work that is not ours, a commit.

Each client is a thread with a connection of its own and does nothing but transactions; some threads share a process, as
in a web server, and its Trunkline client. What they do is the same on all sides but for the one line that publishes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from struct import Struct
from time import monotonic, process_time
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg import sql
from psycopg.adapt import PyFormat

import trunkline
from benchmarks.baselines.rows import Rows, composed, write_statement
from benchmarks.bench import Bench
from benchmarks.payloads import Payloads, made
from benchmarks.processor import Busy, server_processor_s
from benchmarks.sides import Ours, topic_name
from trunkline import ClientSettings

Kind = Literal["ours", "counter", "nothing"]
"""What publishes: Trunkline; a counter row that is updated and a row inserted, as in the design that it replaces; or
nothing at all."""

Connection = psycopg.Connection[tuple[Any, ...]]
Publish = Callable[[Connection, int, bytes], object]
"""Publishes the event of a row in the transaction of a connection."""

WARM_TRANSACTIONS = 8
"""Before the start: a prepared statement is planned anew five times before its plan is kept."""
ROWS_EACH = 10_000_000
"""The numbers that each client has for its rows."""
ONE_CONNECTION = ClientSettings(connections_max=1)
ROW_ID = Struct("!q")
_INSERT = "insert into public.{table} (id, body) values (%s, %s)"
_CREATE = "create table public.{table} (id bigint primary key, body bytea not null)"
_COUNT = "select c_offset, payload from {table} order by c_offset"


class Span(NamedTuple):
    """One transaction, from before its first statement to the answer to its commit; ``committing`` is how long that
    took."""

    begun: float
    ended: float
    committing: float

    @property
    def took_s(self) -> float:
        return self.ended - self.begun


@dataclass
class Traded:
    """What the clients of one process did. ``ids``: the rows they committed, also before the start."""

    started: float
    spans: list[Span]
    ids: list[int]
    processor_s: float


@dataclass
class Client:
    """One connection and its transactions."""

    connection: Connection
    insert: sql.Composed
    publish: Publish
    bodies: Sequence[bytes]
    work_s: float
    next_id: int
    spans: list[Span] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def trade(self, work_s: float) -> None:
        number = self.next_id
        self.next_id += 1
        body = self.bodies[number % len(self.bodies)]
        begun = monotonic()
        self.connection.execute(self.insert, [number, body])
        self.publish(self.connection, number, ROW_ID.pack(number) + body)
        if work_s:
            time.sleep(work_s)
        committing = monotonic()
        self.connection.commit()
        ended = monotonic()
        self.spans.append(Span(begun, ended, ended - committing))
        self.ids.append(number)

    def warm(self) -> None:
        for _ in range(WARM_TRANSACTIONS):
            self.trade(0.0)
        self.spans = []

    def trade_until(self, end: float) -> None:
        while monotonic() < end:
            self.trade(self.work_s)


@dataclass(frozen=True)
class Trade:
    """So many clients in one process, for some time."""

    kind: Kind
    url: str
    log: int
    partitions: int
    number: int
    clients: int
    work_s: float
    duration_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Traded]]:
        bodies = made(Payloads("json", self.number, distinct=2_000))
        insert = sql.SQL(_INSERT).format(table=sql.Identifier(table_name(self.log)))
        with ExitStack() as stack:
            publish = stack.enter_context(publisher(self.kind, self.url, self.log, self.partitions))
            clients = [
                Client(
                    stack.enter_context(psycopg.connect(self.url)),
                    insert,
                    publish,
                    bodies,
                    self.work_s,
                    (self.number * self.clients + index) * ROWS_EACH,
                )
                for index in range(self.clients)
            ]
            pool = stack.enter_context(ThreadPoolExecutor(self.clients))
            list(pool.map(Client.warm, clients))
            yield lambda: self._trade(clients, pool)

    def _trade(self, clients: Sequence[Client], pool: ThreadPoolExecutor) -> Traded:
        processor, started = process_time(), monotonic()
        end = started + self.duration_s
        list(pool.map(lambda client: client.trade_until(end), clients))
        return Traded(
            started,
            [span for client in clients for span in client.spans],
            [number for client in clients for number in client.ids],
            process_time() - processor,
        )


@contextmanager
def publisher(kind: Kind, url: str, log: int, partitions: int) -> Iterator[Publish]:
    """The one line in which the sides differ. Keys are the rows' numbers, and spread over all partitions."""
    if kind == "nothing":
        yield lambda connection, number, payload: None  # noqa: ARG005
    elif kind == "counter":
        payloads = sql.Placeholder("payloads", format=PyFormat.BINARY)
        writes = [write_statement(log, partition, payloads) for partition in range(partitions)]
        yield lambda connection, number, payload: connection.execute(
            writes[number % partitions], {"payloads": [payload]}, prepare=True
        )
    else:
        topic = topic_name(log)
        with trunkline.connect(url, settings=ONE_CONNECTION) as tl:
            yield lambda connection, number, payload: tl.publish(topic, payload, key=str(number), conn=connection)


class Load(NamedTuple):
    """How busy the machine was, 1.0 is all of it; and the server's processor time a second. None: not known."""

    busy: float | None
    server: float | None


@dataclass(frozen=True)
class Observe:
    """Look at the machine and the server while the clients work."""

    url: str
    duration_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Load]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            yield lambda: self._observe(connection)

    def _observe(self, connection: Connection) -> Load:
        # Well within the time of the clients, whose sessions end with it.
        time.sleep(self.duration_s * 0.2)
        before, server_before, began = Busy.now(), server_processor_s(connection), monotonic()
        time.sleep(self.duration_s * 0.6)
        after, server_after = Busy.now(), server_processor_s(connection)
        return Load(
            None if before is None or after is None else before.share(after),
            None
            if server_before is None or server_after is None
            else (server_after - server_before) / (monotonic() - began),
        )


@dataclass(frozen=True)
class Market:
    """How many clients trade, in how many processes, and how long each works in a transaction."""

    partitions: int
    processes: int
    clients_each: int
    work_s: float
    duration_s: float


@dataclass(frozen=True)
class Run:
    """One run of one side."""

    market: Market
    traded: list[Traded]
    load: Load

    @property
    def started(self) -> float:
        return max(each.started for each in self.traded)

    @property
    def spans(self) -> list[Span]:
        return [span for each in self.traded for span in each.spans]

    @property
    def rate(self) -> float:
        """Transactions a second that were committed in the time."""
        end = self.started + self.market.duration_s
        return sum(1 for span in self.spans if self.started <= span.ended < end) / self.market.duration_s

    @property
    def clients_load(self) -> float:
        """Processors that the clients took."""
        return sum(each.processor_s for each in self.traded) / self.market.duration_s


def trade(bench: Bench, kind: Kind, market: Market, url: str, *, before: Callable[[int], object] | None = None) -> Run:
    """One run on new tables. Every row must have its event, once, or the benchmark fails. ``before`` is given the
    number of the log, when all are ready."""
    with bench.log(Rows() if kind == "counter" else Ours(), market.partitions) as log:
        table = sql.Identifier(table_name(log))
        with psycopg.connect(bench.database.url, autocommit=True) as connection:
            connection.execute(sql.SQL(_CREATE).format(table=table))
            bench.settle()
            jobs: list[Trade | Observe] = [
                Trade(kind, url, log, market.partitions, number, market.clients_each, market.work_s, market.duration_s)
                for number in range(market.processes)
            ]
            found = bench.crew.run(
                [*jobs, Observe(bench.database.url, market.duration_s)],
                before=None if before is None else lambda: before(log),
            )
            traded = [each for each in found if isinstance(each, Traded)]
            load = next(each for each in found if isinstance(each, Load))
            check(connection, kind, log, market.partitions, [number for each in traded for number in each.ids])
            connection.execute(sql.SQL("drop table public.{table}").format(table=table))
    return Run(market, traded, load)


def check(connection: Connection, kind: Kind, log: int, partitions: int, ids: Sequence[int]) -> None:
    """The rows are those that were committed, and each has its event once."""
    table = sql.Identifier(table_name(log))
    rows = Counter(number for (number,) in connection.execute(sql.SQL("select id from public.{}").format(table)))
    assert rows == Counter(ids), f"{rows.total()} rows, of {len(ids)} that were committed"
    if kind != "nothing":
        events = Counter(ROW_ID.unpack_from(payload)[0] for payload in _payloads(connection, kind, log, partitions))
        # A transaction that is still open has published nothing.
        assert events == rows, f"{events.total()} events of {rows.total()} rows"


def _payloads(connection: Connection, kind: Kind, log: int, partitions: int) -> Iterator[bytes]:
    for partition in range(partitions):
        if kind == "counter":
            yield from (payload for _, payload in connection.execute(composed(_COUNT, log, partition)))
        else:
            yield from (
                payload
                for (payload,) in connection.execute(
                    "select payload from trunkline.records(%s, %s, 1, 2147483647)", [topic_name(log), partition]
                )
            )


def table_name(log: int) -> str:
    return f"business_{log}"
