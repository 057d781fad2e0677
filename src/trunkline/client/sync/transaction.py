# Generated from src/trunkline/client/aio/transaction.py by tools/twins.py (make fix). Change the source, not this file.
"""Effects once: the records, what the application writes, and the cursor commit together or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import Connection, Transaction

from trunkline.client import protocol
from trunkline.client.failures import translate
from trunkline.client.sync.connection import Row, ServerConnection
from trunkline.client.sync.member import Member
from trunkline.client.sync.server import Server
from trunkline.client.sync.shim import Shield
from trunkline.engine.holdings import Holding
from trunkline.errors import DeadlineExceeded, Fenced, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import Record


class GroupTransaction:
    """Records, and the connection on which their effects are written.

    ``conn`` is in a transaction of its own, which ends with the block; its isolation is READ COMMITTED.
    """

    def __init__(self, records: list[Record], conn: Connection[Row]) -> None:
        self.records = records
        self.conn = conn


class Effects:
    """One transaction of a member's, from the first record to the moved cursors."""

    def __init__(self, server: Server, member: Member, shield: Shield) -> None:
        self._server = server
        self._member = member
        self._shield = shield

    @contextmanager
    def begun(
        self, records: list[Record], moves: Sequence[tuple[Holding, int]], deadline: float
    ) -> Iterator[GroupTransaction]:
        """A transaction around the block. Where the block raises, nothing of it stays, and the records come again."""
        try:
            with self._server.pool.connection(self._server.deadline()) as connection:
                connection.deadline = deadline
                block = Transaction(connection)
                try:
                    block.__enter__()
                    self._prepare(connection)
                except psycopg.Error as error:
                    raise translate(error) from error
                try:
                    yield GroupTransaction(records, connection)
                except BaseException as error:
                    block.__exit__(type(error), error, error.__traceback__)
                    raise
                self._shield.run(self._end(connection, block, moves))
        except BaseException:
            for holding, _ in moves:
                holding.rewind(holding.committed)
            raise

    def _prepare(self, connection: ServerConnection) -> None:
        """The server gives up a transaction whose process has stopped: its rows would block whoever comes next."""
        settings = self._server.settings
        connection.execute(protocol.SESSION_LOCAL, [str(round(settings.lock_wait_s * 1000))])
        connection.execute(protocol.TRANSACTION_LOCAL, [str(round(settings.session_timeout_s * 1000))])

    def _end(self, connection: ServerConnection, block: Transaction, moves: Sequence[tuple[Holding, int]]) -> None:
        """Move the cursors and commit; where the answer to that is lost, find out what became of it."""
        try:
            self._commit(connection, block, moves)
        except Fenced as error:
            raise self._member.fence(error) from error
        except (Unavailable, DeadlineExceeded) as error:
            if not moves:
                raise OutcomeUnknown(f"there were no records to tell by whether it was committed: {error}") from error
            self._find_out(moves, error)
        for holding, next_offset in moves:
            holding.committed = next_offset

    def _commit(self, connection: ServerConnection, block: Transaction, moves: Sequence[tuple[Holding, int]]) -> None:
        try:
            try:
                if moves:
                    connection.execute(protocol.GROUP_COMMIT, self._member.commit_parameters(moves))
            except BaseException as error:
                block.__exit__(type(error), error, error.__traceback__)
                raise
            block.__exit__(None, None, None)
        except psycopg.Error as error:
            raise translate(error) from error

    def _find_out(self, moves: Sequence[tuple[Holding, int]], error: TrunklineError) -> None:
        """Taking the cursors again waits for the commit, if it is still under way, and refuses it if it is still to
        come; where they stand then tells whether it was done. All moved together, or none."""
        try:
            stands = self._member.retake([holding.cursor_id for holding, _ in moves])
        except Fenced as fenced:
            raise self._member.fence(fenced) from error
        if any(stands[holding.cursor_id] != next_offset for holding, next_offset in moves):
            raise error
