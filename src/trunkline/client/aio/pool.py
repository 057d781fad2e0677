"""The connections of one client: a few, opened when they are needed, kept while they work.

The library's own pool would bring threads that no caller started; this one has none, and gives up every idle
connection once one of them was found broken, so that a restarted server costs one failure and not many.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from types import TracebackType

from psycopg.pq import TransactionStatus

from trunkline.client.aio.connection import ServerConnection, open_connection
from trunkline.client.aio.shim import Mutex, Waiter
from trunkline.client.forks import forks
from trunkline.errors import Closed, DeadlineExceeded
from trunkline.settings import ClientSettings


class Loan:
    """A connection that is borrowed while a block runs. A class: every call makes one, and a generator costs more."""

    __slots__ = ("_deadline", "_lent", "_pool")

    def __init__(self, pool: Pool, deadline: float) -> None:
        self._pool = pool
        self._deadline = deadline

    async def __aenter__(self) -> ServerConnection:
        self._lent = await self._pool.borrow(self._deadline)
        return self._lent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.give_back(self._lent)


class Pool:
    """Lends connections, one borrower each; the one that was used last is lent first."""

    def __init__(self, url: str, settings: ClientSettings) -> None:
        self._url = url
        self._settings = settings
        self._mutex = Mutex()
        self._idle: list[ServerConnection] = []
        self._open = 0
        self._waiting: deque[Waiter[bool]] = deque()
        self._closed = False
        self._forks = forks()
        self._generation = self._forks.generation

    @property
    def is_inherited(self) -> bool:
        """Whether this is a child process: sockets and threads are the parent's."""
        return self._forks.generation != self._generation

    def check_usable(self) -> None:
        """Raise Closed after close, and in a child process, where the sockets belong to the parent."""
        if self._closed:
            raise Closed("this client is closed; connect again")
        if self._forks.generation != self._generation:
            raise Closed("this client was opened before fork; connect again in the child process")

    def connection(self, deadline: float) -> Loan:
        """Borrow a connection until the block ends, its waits bounded by the deadline."""
        return Loan(self, deadline)

    async def borrow(self, deadline: float) -> ServerConnection:
        """A connection for this caller alone, who must give it back."""
        lent = await self._find(deadline)
        lent.deadline = min(deadline, monotonic() + self._settings.statement_timeout_s)
        return lent

    async def _find(self, deadline: float) -> ServerConnection:
        while True:
            self.check_usable()
            with self._mutex:
                if self._idle:
                    return self._idle.pop()
                if self._open < self._settings.connections_max:
                    self._open += 1
                    break
                waiter: Waiter[bool] = Waiter()
                self._waiting.append(waiter)
            await self._wait_for_turn(waiter, deadline)
        try:
            return await open_connection(self._url, self._settings, deadline)
        except BaseException:
            self._one_less()
            raise

    async def _wait_for_turn(self, waiter: Waiter[bool], deadline: float) -> None:
        try:
            await waiter.wait(max(0.0, deadline - monotonic()))
        except BaseException as error:
            with self._mutex:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                elif waiter.given:
                    self._wake_one()
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(
                    f"all {self._settings.connections_max} connections stayed in use; raise connections_max"
                ) from None
            raise

    async def give_back(self, lent: ServerConnection) -> None:
        """Let others have it; one that is worn or broken is closed."""
        lent.deadline = None
        sound = not lent.closed and lent.pgconn.transaction_status == TransactionStatus.IDLE
        old = lent.is_worn(self._settings.connection_age_s)
        broken: list[ServerConnection] = []
        with self._mutex:
            if sound and not old and not self._closed:
                self._idle.append(lent)
                self._wake_one()
            elif sound and old:
                broken = [lent]
                self._open -= 1
                self._wake_one()
            else:
                broken = [lent, *self._idle]
                self._open -= len(broken)
                self._idle.clear()
                for _ in broken:
                    self._wake_one()
        for connection in broken:
            await connection.close()

    def _one_less(self) -> None:
        with self._mutex:
            self._open -= 1
            self._wake_one()

    def _wake_one(self) -> None:
        if self._waiting:
            self._waiting.popleft().give(True)

    async def close(self) -> None:
        """Close every idle connection now, and every lent one when it comes back. Twice is fine."""
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            while self._waiting:
                self._wake_one()
        if not self.is_inherited:
            for connection in idle:
                await connection.close()
