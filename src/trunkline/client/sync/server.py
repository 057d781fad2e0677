# Generated from src/trunkline/client/aio/server.py by tools/twins.py (make fix). Change the source, not this file.
"""Calls of the server's functions, within the client's deadline, tried again where that is safe."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from trunkline.client.arrays import EncodedArray
from trunkline.client.sync.connection import Row, ServerConnection
from trunkline.client.sync.pool import Pool
from trunkline.client.sync.shim import sleep
from trunkline.engine.backoff import backoff_s
from trunkline.errors import DeadlineExceeded, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.settings import ClientSettings

T = TypeVar("T")


class Server:
    """What every room of the client calls the server through. The one place where calls are tried again."""

    def __init__(self, pool: Pool, settings: ClientSettings) -> None:
        self.pool = pool
        self.settings = settings

    def deadline(self) -> float:
        """When a call that begins now must have ended, on the monotonic clock."""
        return monotonic() + self.settings.deadline_s

    def ask(self, statement: str, parameters: Sequence[Any] = (), deadline: float | None = None) -> list[Row]:
        """Call something that changes nothing: tried again after any failure that may pass, until the deadline, or the
        client's own."""
        return self._ask(lambda connection: connection.call(statement, parameters), deadline)

    def repeat(self, statement: str, parameters: Sequence[Any] = (), deadline: float | None = None) -> list[Row]:
        """Call something that may be done twice without harm: tried again as ``ask``."""
        return self.ask(statement, parameters, deadline)

    def commit_cursors(self, member_id: int, arrays: Sequence[EncodedArray]) -> None:
        """Move cursors, which done twice does no harm; tried again as ``ask``. It must not be called refused while it
        may have been done: OutcomeUnknown where it is refused after an attempt whose answer was lost."""
        may_be_done = False

        def commit(connection: ServerConnection) -> None:
            nonlocal may_be_done
            try:
                connection.commit_cursors(member_id, arrays)
            except (Unavailable, DeadlineExceeded):
                may_be_done = True
                raise

        try:
            self._ask(commit)
        except TrunklineError as error:
            if may_be_done and not error.retryable:
                raise OutcomeUnknown(f"an attempt may have been done before it was refused: {error}") from error
            raise

    def queue_next(
        self, parameters: Sequence[Any], deadline: float, *, may_be_done: bool = False
    ) -> tuple[list[Row], bool]:
        """Settle and claim records of a queue; tried again as ``ask``: settlements are numbered, so that one which was
        done is not done again, and a claim whose answer was lost expires. Also whether an answer was lost before."""
        return self._settle(lambda connection: connection.queue_next(parameters), deadline, may_be_done)

    def queue_step(self, table_no: int, values: Sequence[bytes | None], deadline: float) -> tuple[Row | None, bool]:
        """As ``queue_next``, by the short way; None where it cannot be taken."""

        def step(connection: ServerConnection) -> Row | None:
            return None if connection.pooled else connection.queue_step(table_no, values)

        return self._settle(step, deadline, may_be_done=False)

    def _settle(self, question: Callable[[ServerConnection], T], deadline: float, may_be_done: bool) -> tuple[T, bool]:
        def call(connection: ServerConnection) -> T:
            nonlocal may_be_done
            try:
                return question(connection)
            except (Unavailable, DeadlineExceeded):
                may_be_done = True
                raise

        try:
            return self._ask(call, deadline), may_be_done
        except TrunklineError as error:
            if may_be_done:
                raise OutcomeUnknown(f"records may or may not have been settled: {error}") from error
            raise

    def read(self, values: Sequence[int], *, merge_small: bool = True) -> list[Row]:
        """Read the log; tried again as ``ask``. Batches of one record come as one where ``merge_small`` lets them."""
        return self._ask(lambda connection: connection.read([*values, merge_small]))

    def _ask(self, question: Callable[[ServerConnection], T], deadline: float | None = None) -> T:
        deadline = self.deadline() if deadline is None else deadline
        attempt = 0
        while True:
            try:
                with self.pool.connection(deadline) as connection:
                    return question(connection)
            except TrunklineError as error:
                if not error.retryable:
                    raise
                self.pause(attempt, deadline, error)
            attempt += 1

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Call something that changes the database: tried again only where it is certain that nothing was done.

        OutcomeUnknown: the connection was lost, or given up, while the server was at it.
        """
        deadline = self.deadline()
        attempt = 0
        while True:
            try:
                return self.once(statement, parameters, deadline)
            except TrunklineError as error:
                if not error.retryable:
                    raise
                self.pause(attempt, deadline, error)
            attempt += 1

    def once(self, statement: str, parameters: Sequence[Any] = (), deadline: float | None = None) -> list[Row]:
        """Call something that changes the database a single time."""
        with self.pool.connection(self.deadline() if deadline is None else deadline) as connection:
            try:
                return connection.call(statement, parameters)
            except (Unavailable, DeadlineExceeded) as error:
                raise OutcomeUnknown(f"it may or may not have been done; look before you try again: {error}") from error

    def pause(self, attempt: int, deadline: float, error: TrunklineError) -> None:
        """Wait before the next attempt, or raise the error where there is no time for one."""
        delay = backoff_s(
            attempt,
            first_s=self.settings.retry_first_s,
            max_s=self.settings.retry_max_s,
            chance=random.random(),
        )
        if monotonic() + delay >= deadline:
            if isinstance(error, DeadlineExceeded):
                raise error
            raise DeadlineExceeded(
                f"not done within {self.settings.deadline_s:g} s; the last failure: {error}"
            ) from error
        sleep(delay)
