"""Effects once: the records, what the application writes, and the cursor commit together or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from time import monotonic

import psycopg
from psycopg import AsyncConnection, AsyncTransaction

from trunkline.client import protocol
from trunkline.client.aio.connection import Row, ServerConnection
from trunkline.client.aio.member import Member
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import Shield
from trunkline.client.failures import translate
from trunkline.engine.holdings import Holding
from trunkline.errors import DeadlineExceeded, Fenced, InvalidArgument, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import Record


class GroupTransaction:
    """Records, and the connection on which their effects are written.

    ``conn`` is in a transaction of its own, which ends with the block; its isolation is READ COMMITTED.
    """

    def __init__(
        self, records: list[Record], conn: AsyncConnection[Row], transaction_sizes: Sequence[int] | None = None
    ) -> None:
        self.records = records
        self.conn = conn
        self._transaction_sizes = transaction_sizes
        self.member_id = 0
        self.held: Sequence[Holding] = ()

    def transactions(self) -> list[list[Record]]:
        """The records by the transaction that published them. One that published to several partitions comes in as many
        parts, each whole. For consumers with ``whole_transactions`` alone."""
        if self._transaction_sizes is None:
            raise InvalidArgument("transactions are known to consumers with whole_transactions=True alone")
        records = iter(self.records)
        return [list(islice(records, size)) for size in self._transaction_sizes]


class Effects:
    """One transaction of a member's, from the first record to the moved cursors."""

    def __init__(self, server: Server, member: Member, shield: Shield, moves: Sequence[tuple[Holding, int]]) -> None:
        self._server = server
        self._member = member
        self._shield = shield
        self._moves = moves
        self._held = [holding for holding, _ in moves]

    @asynccontextmanager
    async def begun(
        self, records: list[Record], deadline: float, transaction_sizes: Sequence[int] | None = None
    ) -> AsyncIterator[GroupTransaction]:
        """A transaction around the block. Where the block raises, nothing of it stays, and the records come again."""
        lent = AsyncExitStack()
        try:
            connection, block = await self._open(lent)
            connection.deadline = deadline
            try:
                yield GroupTransaction(records, connection, transaction_sizes)
            except BaseException as error:
                async with lent:
                    await block.__aexit__(type(error), error, error.__traceback__)
                raise
            self._member.put_down(self._held)
            await self._shield.run(self._end(lent, connection, block))
        except BaseException:
            for holding in self._held:
                holding.rewind(holding.committed)
            self._member.look_again()
            raise

    # -- its beginning --

    async def _open(self, lent: AsyncExitStack) -> tuple[ServerConnection, AsyncTransaction]:
        """A connection in a transaction. Tried again: nothing has been done yet."""
        deadline = self._server.deadline()
        attempt = 0
        while True:
            try:
                return await self._begin(lent, deadline)
            except TrunklineError as error:
                if not error.retryable:
                    raise
                await self._server.pause(attempt, deadline, error)
            attempt += 1

    async def _begin(self, lent: AsyncExitStack, deadline: float) -> tuple[ServerConnection, AsyncTransaction]:
        try:
            connection = await lent.enter_async_context(self._server.pool.connection(deadline))
            block = AsyncTransaction(connection)
            await block.__aenter__()
            await self._prepare(connection)
        except BaseException as error:
            await lent.aclose()
            if isinstance(error, psycopg.Error):
                raise translate(error) from error
            raise
        return connection, block

    async def _prepare(self, connection: ServerConnection) -> None:
        """The server gives up a transaction whose process has stopped: its rows would block whoever comes next."""
        settings = self._server.settings
        parameters = [str(round(settings.lock_wait_s * 1000)), str(round(settings.session_timeout_s * 1000))]
        await connection.execute(protocol.SESSION_LOCAL, parameters)

    # -- its end --

    async def _end(self, lent: AsyncExitStack, connection: ServerConnection, block: AsyncTransaction) -> None:
        """Move the cursors and commit; where the answer to that is lost, find out what became of it. Goes on where
        its caller was cancelled: until then nobody holds the partitions."""
        deadline = self._server.deadline()
        # Half of the time for the commit, the rest to find out.
        connection.deadline = monotonic() + min(
            self._server.settings.statement_timeout_s, self._server.settings.deadline_s / 2
        )
        may_be_done = False
        try:
            async with lent:
                await self._move(connection, block)
                may_be_done = True
                await self._commit(block)
        except (Unavailable, DeadlineExceeded) as error:
            await self._find_out(error, deadline, may_be_done=may_be_done)
        except TrunklineError as error:
            self._member.pick_up(self._held)
            raise (self._member.fence(error) if isinstance(error, Fenced) else error) from error.__cause__
        for holding, next_offset in self._moves:
            holding.confirm(next_offset)
        self._member.pick_up(self._held)

    async def _move(self, connection: ServerConnection, block: AsyncTransaction) -> None:
        try:
            if self._moves:
                await connection.execute(protocol.GROUP_COMMIT, self._member.commit_parameters(self._moves))
        except BaseException as error:
            await block.__aexit__(type(error), error, error.__traceback__)
            if isinstance(error, psycopg.Error):
                raise translate(error) from error
            raise

    async def _commit(self, block: AsyncTransaction) -> None:
        try:
            await block.__aexit__(None, None, None)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _find_out(self, error: TrunklineError, deadline: float, *, may_be_done: bool) -> None:
        """Taking the cursors again waits for the commit, if it is still under way, and refuses it if it is still to
        come; where they stand then tells whether it was done. All moved together, or none. Who cannot take them any
        more is not told."""
        if not self._moves:
            raise OutcomeUnknown(f"there were no records to tell by whether it was committed: {error}") from error
        try:
            stands = await self._member.retake(self._held, deadline)
        except (Fenced, Unavailable, DeadlineExceeded) as failure:
            if may_be_done:
                raise OutcomeUnknown(f"it may or may not have been committed: {error}; then: {failure}") from failure
            raise (failure if isinstance(failure, Fenced) else error) from failure
        if any(stands[holding.cursor_id] != next_offset for holding, next_offset in self._moves):
            raise error
