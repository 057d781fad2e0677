"""Effects once: the records, what the application writes, and the cursor commit together or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psycopg
from psycopg import AsyncConnection, AsyncTransaction

from trunkline.client import protocol
from trunkline.client.aio.connection import Row, ServerConnection
from trunkline.client.aio.member import Member
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import Shield
from trunkline.client.failures import translate
from trunkline.engine.holdings import Holding
from trunkline.errors import DeadlineExceeded, Fenced, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import Record


class GroupTransaction:
    """Records, and the connection on which their effects are written.

    ``conn`` is in a transaction of its own, which ends with the block; its isolation is READ COMMITTED.
    """

    def __init__(self, records: list[Record], conn: AsyncConnection[Row]) -> None:
        self.records = records
        self.conn = conn


class Effects:
    """One transaction of a member's, from the first record to the moved cursors."""

    def __init__(self, server: Server, member: Member, shield: Shield) -> None:
        self._server = server
        self._member = member
        self._shield = shield

    @asynccontextmanager
    async def begun(
        self, records: list[Record], moves: Sequence[tuple[Holding, int]], deadline: float
    ) -> AsyncIterator[GroupTransaction]:
        """A transaction around the block. Where the block raises, nothing of it stays, and the records come again."""
        try:
            async with self._server.pool.connection(self._server.deadline()) as connection:
                connection.deadline = deadline
                block = AsyncTransaction(connection)
                try:
                    await block.__aenter__()
                    await self._prepare(connection)
                except psycopg.Error as error:
                    raise translate(error) from error
                try:
                    yield GroupTransaction(records, connection)
                except BaseException as error:
                    await block.__aexit__(type(error), error, error.__traceback__)
                    raise
                await self._shield.run(self._end(connection, block, moves))
        except BaseException:
            for holding, _ in moves:
                holding.rewind(holding.committed)
            raise

    async def _prepare(self, connection: ServerConnection) -> None:
        """The server gives up a transaction whose process has stopped: its rows would block whoever comes next."""
        settings = self._server.settings
        await connection.execute(protocol.SESSION_LOCAL, [str(round(settings.lock_wait_s * 1000))])
        await connection.execute(protocol.TRANSACTION_LOCAL, [str(round(settings.session_timeout_s * 1000))])

    async def _end(
        self, connection: ServerConnection, block: AsyncTransaction, moves: Sequence[tuple[Holding, int]]
    ) -> None:
        """Move the cursors and commit; where the answer to that is lost, find out what became of it."""
        try:
            await self._commit(connection, block, moves)
        except Fenced as error:
            raise self._member.fence(error) from error
        except (Unavailable, DeadlineExceeded) as error:
            if not moves:
                raise OutcomeUnknown(f"there were no records to tell by whether it was committed: {error}") from error
            await self._find_out(moves, error)
        for holding, next_offset in moves:
            holding.committed = next_offset

    async def _commit(
        self, connection: ServerConnection, block: AsyncTransaction, moves: Sequence[tuple[Holding, int]]
    ) -> None:
        try:
            try:
                if moves:
                    await connection.execute(protocol.GROUP_COMMIT, self._member.commit_parameters(moves))
            except BaseException as error:
                await block.__aexit__(type(error), error, error.__traceback__)
                raise
            await block.__aexit__(None, None, None)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _find_out(self, moves: Sequence[tuple[Holding, int]], error: TrunklineError) -> None:
        """Taking the cursors again waits for the commit, if it is still under way, and refuses it if it is still to
        come; where they stand then tells whether it was done. All moved together, or none."""
        try:
            stands = await self._member.retake([holding.cursor_id for holding, _ in moves])
        except Fenced as fenced:
            raise self._member.fence(fenced) from error
        if any(stands[holding.cursor_id] != next_offset for holding, next_offset in moves):
            raise error
