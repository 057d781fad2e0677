# Generated from src/trunkline/client/aio/server.py by tools/twins.py (make fix). Change the source, not this file.
"""Calls of the server's functions, within the client's deadline, tried again where that is safe."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import monotonic
from typing import Any

from trunkline.client.sync.connection import Row
from trunkline.client.sync.pool import Pool
from trunkline.client.sync.shim import sleep
from trunkline.engine.backoff import backoff_s
from trunkline.errors import Conflict, DeadlineExceeded, TrunklineError
from trunkline.settings import ClientSettings


class Server:
    """What every room of the client calls the server through. The one place where calls are tried again."""

    def __init__(self, pool: Pool, settings: ClientSettings) -> None:
        self.pool = pool
        self.settings = settings

    def deadline(self) -> float:
        """When a call that begins now must have ended, on the monotonic clock."""
        return monotonic() + self.settings.deadline_s

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Call something that changes nothing: tried again after any failure that may pass."""
        return self._attempts(statement, parameters, TrunklineError)

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Call something that changes the database: tried again only where nothing was written."""
        return self._attempts(statement, parameters, Conflict)

    def once(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Call something a single time: the caller knows better what to do about a failure."""
        with self.pool.connection(self.deadline()) as connection:
            return connection.call(statement, parameters)

    def _attempts(self, statement: str, parameters: Sequence[Any], may_repeat: type[TrunklineError]) -> list[Row]:
        deadline = self.deadline()
        attempt = 0
        while True:
            try:
                with self.pool.connection(deadline) as connection:
                    return connection.call(statement, parameters)
            except TrunklineError as error:
                if not error.retryable or not isinstance(error, may_repeat):
                    raise
                self.pause(attempt, deadline, error)
            attempt += 1

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
