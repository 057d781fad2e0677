"""One connection to the server, with a deadline that holds whatever the network does."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, AsyncCursor, IsolationLevel, Notify, capabilities
from psycopg.abc import Buffer, PQGen, PQGenConn
from psycopg.adapt import Transformer
from psycopg.generators import execute, fetch, send
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8BinaryDumper

from trunkline.client import arrays, protocol, target
from trunkline.client.aio.shim import wait_for_socket
from trunkline.client.arrays import EncodedArray
from trunkline.client.failures import is_moved, translate
from trunkline.errors import DeadlineExceeded, SchemaOutdated, TrunklineError
from trunkline.settings import ClientSettings

Row = tuple[Any, ...]
SEGMENTS_KNOWN_MAX = 128
TOPICS_A_SEGMENT = 2
"""So many topics that are read count as one segment that is written."""
_APPEND_BINARY = [Format.BINARY] * len(protocol.APPEND_TYPES)
_COMMIT_BINARY = [Format.BINARY] * len(protocol.COMMIT_TYPES)
_READ_BINARY = [Format.BINARY] * len(protocol.READ_TYPES)
_QUEUE_NEXT_BINARY = [Format.BINARY] * len(protocol.QUEUE_NEXT_TYPES)
_QUEUE_STEP_FORMATS = [Format.TEXT if kind == 4536 else Format.BINARY for kind in protocol.QUEUE_STEP_TYPES]
_STEP_ARRAYS = (1001, 1001, 1007, 1009, 1001)
_NOTHING_CLAIMED = (None,) * 11
_NOTHING_ALONG = (None,) * 5
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""From which the server counts microseconds."""
_CHUNK_BYTES = 400_000
"""About how much is taken at a time while a read is still coming in: little enough to stay in the processor's cache."""
_CHUNK_ROWS_MAX = 64


class ServerConnection(AsyncConnection[Row]):
    """A connection of ours: bounded in time, and closed rather than left in doubt.

    ``call`` runs one function in a transaction of its own. On a direct connection the session is set up once and
    the statement is prepared; behind a pooler in transaction mode, where neither lasts, each call carries both.
    """

    connect_deadline: float = float("inf")
    opened_at: float = 0.0
    deadline: float | None = None
    pooled: bool = False
    schema_version: int = 0
    log_epoch: int = 0
    is_standby: bool = False
    server_version: int = 0
    lock_timeout_s: float = 0.0
    idle_timeout_s: float = 0.0
    _answers: AsyncCursor[Row]
    _ready_segments: set[int]
    _ready_tables: set[int]
    _array_loaders: dict[int, Callable[[Buffer], Any]]
    _topics_read: set[int]
    _ready_to_read: bool = False
    _ready_to_commit: bool = False
    _ready_for_queues: bool = False
    _chunk_rows: int = 8
    _heard: Callable[[Notify], None] | None = None
    _may_ring: bool = False
    _rings: Sequence[EncodedArray] = ()
    _ring_failure: psycopg.Error | None = None

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        """As the driver's, which knows no timeout under two seconds, but ends at the deadline."""
        steps = super()._connect_gen(conninfo)
        step = next(steps)
        while True:
            ready = yield step
            if monotonic() >= cls.connect_deadline:
                steps.close()
                raise psycopg.errors.ConnectionTimeout("the server did not answer in time")
            try:
                step = steps.send(ready)
            except StopIteration as end:
                connected: Self = end.value
                return connected

    async def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - psycopg's own name
        """Wait for the server, at most until the deadline; then, or when interrupted, the socket is closed."""
        if self.deadline is not None:
            left = max(0.0, self.deadline - monotonic())
            timeout = left if timeout is None else min(left, timeout)
        try:
            return await wait_for_socket(gen, self.pgconn.socket, interval=interval, timeout=timeout)
        except psycopg.errors._WaitTimeout:  # noqa: SLF001 - the only name psycopg has for it
            self.pgconn.finish()
            raise DeadlineExceeded("the server did not answer in time; the connection was closed") from None
        except psycopg.Error:
            raise
        except BaseException:
            # Asking the server to cancel could take as long as the wait that was interrupted.
            if self.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.pgconn.finish()
            raise

    async def call(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement as a transaction; its rows. Raises errors of ours."""
        try:
            if not self.pooled:
                await self._answers.execute(statement, parameters, prepare=True, binary=True)
                return await self._answers.fetchall()
            async with self.transaction():
                await self._answers.execute(protocol.SESSION_LOCAL, self._local_settings(), prepare=False)
                await self._answers.execute(statement, parameters, prepare=False, binary=True)
                return await self._answers.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error

    async def append(self, segment_id: int, values: Sequence[bytes | None]) -> Row:
        """Call a segment's append function: as ``call``, without the driver's work of adapting each argument.

        Where a single record is published, that work would take longer than the server does.
        """
        name = b"append_%d" % segment_id
        try:
            if segment_id not in self._ready_segments:
                await self._prepare(name, protocol.append_to_segment(segment_id), protocol.APPEND_TYPES)
                self._ready_segments.add(segment_id)
            self.pgconn.send_query_prepared(name, values, _APPEND_BINARY, Format.BINARY)
            result = await self._result()
        except psycopg.Error as error:
            raise self._translate(error) from error
        return protocol.APPEND_ANSWER.unpack(result.get_value(0, 0) or b"")

    async def commit_cursors(self, member_id: int, arrays: Sequence[EncodedArray]) -> None:
        """Call group_commit: as ``call``, without the driver's work of adapting each argument."""
        if self.pooled:
            await self.call(protocol.GROUP_COMMIT, [member_id, *arrays, None])
            return
        try:
            if not self._ready_to_commit:
                await self._prepare(b"commit_cursors", protocol.COMMIT_PREPARED, protocol.COMMIT_TYPES)
                self._ready_to_commit = True
            values = [protocol.COMMIT_MEMBER(member_id), *(array.data for array in arrays)]
            self.pgconn.send_query_prepared(b"commit_cursors", values, _COMMIT_BINARY, Format.BINARY)
            await self._result()
        except psycopg.Error as error:
            raise self._translate(error) from error

    async def queue_next(self, parameters: Sequence[Any]) -> list[Row]:
        """Call queue_next, whose parameters are integers, arrays that are encoded, and text: as ``call``, without the
        driver's work of adapting each argument."""
        if self.pooled:
            return await self.call(protocol.QUEUE_NEXT, parameters)
        try:
            if not self._ready_for_queues:
                await self._prepare(b"queue_next", protocol.QUEUE_NEXT_PREPARED, protocol.QUEUE_NEXT_TYPES)
                self._ready_for_queues = True
            values = [_packed(kind, each) for kind, each in zip(protocol.QUEUE_NEXT_TYPES, parameters, strict=True)]
            self.pgconn.send_query_prepared(b"queue_next", values, _QUEUE_NEXT_BINARY, Format.BINARY)
            result = await self._result()
            loader = Transformer.from_context(self._answers)
            loader.set_pgresult(result)
            return loader.load_rows(0, result.ntuples, tuple)
        except psycopg.Error as error:
            raise self._translate(error) from error

    async def queue_step(self, table_no: int, values: Sequence[bytes | None]) -> Row | None:
        """Call the function of a queue's tables; None where they have gone. Not through a pooler."""
        name = b"step_%d" % table_no
        try:
            if table_no not in self._ready_tables:
                await self._prepare(name, protocol.queue_step(table_no), protocol.QUEUE_STEP_TYPES)
                self._ready_tables.add(table_no)
            self.pgconn.send_query_prepared(name, values, _QUEUE_STEP_FORMATS, Format.BINARY)
            return self._stepped(await self._result())
        except psycopg.Error as error:
            if is_moved(error):
                return None
            raise self._translate(error) from error

    def _stepped(self, result: PGresult) -> Row:
        """Its columns, without a look-up for each of how to read it."""
        value = result.get_value
        flags = (value(0, 0) == b"\1", value(0, 1) == b"\1", value(0, 2) == b"\1")
        if value(0, 3) is None:
            return (*flags, *_NOTHING_CLAIMED)
        *numbers, microseconds = protocol.QUEUE_STEP_NUMBERS(
            b"".join([value(0, column) or b"" for column in range(3, 9)])
        )
        time = _EPOCH + timedelta(microseconds=microseconds)
        if value(0, 10) is None:
            return (*flags, *numbers, time, *_NOTHING_ALONG)
        arrays = [value(0, column) for column in range(9, 14)]
        load = self._array_loaders
        loaded = [None if each is None else load[kind](each) for kind, each in zip(_STEP_ARRAYS, arrays, strict=True)]
        return (*flags, *numbers, time, *loaded)

    async def read(self, values: Sequence[int]) -> list[Row]:
        """Call log_read; its rows. As ``call``, but batches become Python's while the next ones are still coming."""
        if self.pooled:
            return await self.call(protocol.READ, values)
        self._topics_read.add(values[0])
        try:
            if not self._ready_to_read:
                await self._prepare(b"read", protocol.READ_PREPARED, protocol.READ_TYPES)
                self._ready_to_read = True
            packed = [pack(value) for pack, value in zip(protocol.READ_VALUES, values, strict=True)]
            self.pgconn.send_query_prepared(b"read", packed, _READ_BINARY, Format.BINARY)
            if capabilities.has_stream_chunked():
                self.pgconn.set_chunked_rows_mode(self._chunk_rows)
            rows: list[Row] = await self.wait(self._rows())
        except psycopg.Error as error:
            raise self._translate(error) from error
        if rows:
            # The next batches are likely as large as these; the last column is their size.
            bytes_each = sum(row[-1] or 0 for row in rows) // len(rows)
            self._chunk_rows = max(1, min(_CHUNK_ROWS_MAX, _CHUNK_BYTES // max(1, bytes_each)))
        return rows

    def _rows(self) -> PQGen[list[Row]]:
        yield from send(self.pgconn)
        loader = Transformer.from_context(self._answers)
        rows: list[Row] = []
        failed: PGresult | None = None
        while (result := (yield from fetch(self.pgconn))) is not None:
            if result.status in (ExecStatus.TUPLES_CHUNK, ExecStatus.TUPLES_OK):
                loader.set_pgresult(result)
                rows += loader.load_rows(0, result.ntuples, tuple)
            else:
                failed = result
                if self.pgconn.status != ConnStatus.OK:
                    break
        if failed is not None:
            raise psycopg.errors.error_from_result(failed)
        return rows

    def _translate(self, error: psycopg.Error) -> TrunklineError:
        """As ``translate``. Where the driver has dropped our statements with its own, as it does after a rollback, they
        are prepared anew next time."""
        if isinstance(error, psycopg.errors.InvalidSqlStatementName):
            self._ready_to_read = self._ready_to_commit = self._ready_for_queues = False
            self._ready_segments.clear()
            self._ready_tables.clear()
        return translate(error)

    async def _prepare(self, name: bytes, statement: bytes, types: Sequence[int]) -> None:
        self.pgconn.send_prepare(name, statement, types)
        await self._result()

    async def _result(self) -> PGresult:
        (result,) = await self.wait(execute(self.pgconn))
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise psycopg.errors.error_from_result(result)
        answered: PGresult = result
        return answered

    async def prepare_rings(self) -> None:
        try:
            await self._prepare(b"ring", protocol.RING_PREPARED, protocol.RING_TYPES)
        except psycopg.Error as error:
            raise translate(error) from error
        self._may_ring = True

    def send_rings(self, arrays: Sequence[EncodedArray]) -> None:
        """Send rings, and do not wait: ``end_rings`` must be next, and says whether they were sent. Not through a
        pooler, where nothing is prepared; then it is ``end_rings`` that sends them."""
        self._rings = arrays
        if self._may_ring:
            try:
                self.pgconn.send_query_prepared(
                    b"ring", [array.data for array in arrays], [Format.BINARY, Format.BINARY], Format.BINARY
                )
                self.pgconn.flush()
            except psycopg.Error as error:
                self._ring_failure = error

    async def end_rings(self) -> None:
        """Wait until the rings that were sent have been taken."""
        if not self._may_ring:
            await self.call(protocol.RING, self._rings)
            return
        try:
            if self._ring_failure is not None:
                raise self._ring_failure
            await self._result()
        except psycopg.Error as error:
            raise translate(error) from error

    async def listen(
        self, channels: Sequence[str], heard: Callable[[Notify], None], unlisten: Sequence[str] = ()
    ) -> None:
        """Hear what is announced on these channels, also while other statements run; and no longer on some others."""
        if not self._heard:
            self.add_notify_handler(heard)
            self._heard = heard
        try:
            # In text: in binary each would be a statement of its own.
            await self.cursor().execute(protocol.listen(channels, unlisten), prepare=False)
        except psycopg.Error as error:
            raise translate(error) from error

    def take_notifies(self) -> None:
        """Hand on what has arrived since the last statement; raises where the connection was lost."""
        try:
            self.pgconn.consume_input()
            while (found := self.pgconn.notifies()) is not None:
                if self._heard is not None:
                    self._heard(Notify(found.relname.decode(), found.extra.decode(), found.be_pid))
        except psycopg.Error as error:
            raise translate(error) from error

    def is_worn(self, age_s: float) -> bool:
        """Whether it should be replaced: its server process keeps half a megabyte for each segment it has written, and
        a third of that, or as much where keys and headers are read record by record, for each topic it has read."""
        known = len(self._ready_segments) + len(self._ready_tables) + len(self._topics_read) // TOPICS_A_SEGMENT
        return known > SEGMENTS_KNOWN_MAX or monotonic() - self.opened_at > age_s

    async def greet(self, settings: ClientSettings) -> None:
        """Learn who the server is, refuse one we cannot work with, and set the session up."""
        arrays.register(self)
        self._ready_segments = set()
        self._ready_tables = set()
        self._topics_read = set()
        self.opened_at = monotonic()
        self.adapters.register_dumper(int, Int8BinaryDumper)
        self.lock_timeout_s = settings.lock_wait_s
        self.idle_timeout_s = settings.session_timeout_s
        await self.set_isolation_level(IsolationLevel.READ_COMMITTED)
        self._answers = self.cursor(binary=True)
        # Not for the connection: handlers run statements of their own on it, and get what psycopg makes of these.
        arrays.register_times(self._answers)
        loaders = Transformer.from_context(self)
        self._array_loaders = {kind: loaders.get_loader(kind, Format.BINARY).load for kind in _STEP_ARRAYS}
        # Until it is known to be a direct connection, nothing is prepared and nothing is set.
        self.pooled = True
        self.prepare_threshold = None
        (
            (self.schema_version, _, self.log_epoch, server_sees_port, self.is_standby, self.server_version),
        ) = await self._hello()
        if self.schema_version < protocol.SCHEMA_VERSION_MIN:
            raise SchemaOutdated(
                f"the schema has version {self.schema_version}, and this client needs "
                f"{protocol.SCHEMA_VERSION_MIN}; run: trunkline db upgrade"
            )
        self.pooled = server_sees_port != self._own_port()
        if not self.pooled:
            self.prepare_threshold = 5
            await self.call(protocol.SESSION, [_milliseconds(self.lock_timeout_s)])

    async def _hello(self) -> list[Row]:
        try:
            async with self.transaction():
                await self._answers.execute(protocol.HELLO, [protocol.CLIENT_PROTOCOL], prepare=False)
                return await self._answers.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error

    def _own_port(self) -> int | None:
        with socket.socket(fileno=socket.dup(self.fileno())) as own:
            address = own.getsockname()
        return int(address[1]) if isinstance(address, tuple) else None

    def _local_settings(self) -> list[str]:
        """What a transaction sets for itself. A client that was stopped inside it, or that the network has lost, must
        not keep its locks: behind a pooler nobody else would end it."""
        return [_milliseconds(self.lock_timeout_s), _milliseconds(self.idle_timeout_s)]


def _packed(kind: int, value: int | str | EncodedArray) -> bytes:
    if isinstance(value, EncodedArray):
        return value.data
    return value.encode() if isinstance(value, str) else value.to_bytes(8 if kind == 20 else 4, signed=True)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


async def open_connection(url: str, settings: ClientSettings, deadline: float) -> ServerConnection:
    """A connection that has been greeted. Fails at once where the server cannot be reached or used."""
    parts: dict[str, Any] = target.parse(url)
    if "," in parts.get("host", ""):
        # Of several hosts the one that takes writes is wanted, also after a failover.
        parts.setdefault("target_session_attrs", "read-write")
    parts.setdefault("application_name", settings.application_name)
    parts.setdefault("tcp_user_timeout", round(settings.statement_timeout_s * 1000))
    # The deadline belongs to this one attempt, and the driver makes the connection by calling the class.
    bounded = min(deadline, monotonic() + settings.connect_timeout_s)
    connecting: type[ServerConnection] = type("ServerConnection", (ServerConnection,), {"connect_deadline": bounded})
    try:
        connection = await connecting.connect(**parts, autocommit=True)
    except psycopg.Error as error:
        raise translate(error) from error
    connection.deadline = min(deadline, monotonic() + settings.statement_timeout_s)
    try:
        await connection.greet(settings)
    except BaseException:
        await connection.close()
        raise
    return connection
