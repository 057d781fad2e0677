# Generated from src/trunkline/client/aio/exactly_once.py by tools/twins.py (make fix). Change the source, not this file.
"""Handles a group's records so that their effects are there once: what a handler writes on the connection it is given
commits together with the cursor, or not at all.

Records are taken many to a transaction. Where one fails nothing of the transaction stays, and its records are taken
one by one, so that only the one that fails waits, or is put away.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from psycopg import Connection

from trunkline.client.failures import may_pass
from trunkline.client.sync.attempts import Attempts, Handler
from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.client.sync.shim import Service, Stop, Waiter
from trunkline.engine.backoff import backoff_s
from trunkline.engine.dispatch import Work
from trunkline.errors import Fenced, HandlerFailed, HandlerStuck, OutcomeUnknown, TrunklineError
from trunkline.records import Record

logger = logging.getLogger("trunkline")

POLL_WAIT_S = 1.0


class _Again(Exception):
    """The transaction is to be rolled back, and its records taken again after a while."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s


class ExactlyOnce:
    """One handler at work. Its consumer is its own, and is closed by ``run``."""

    def __init__(self, handler: Handler, client: Client, consumer: Consumer) -> None:
        self._handler = handler
        self._settings = handler.settings
        self._consumer = consumer
        self._attempts = Attempts(handler, client)
        self._failing: dict[tuple[str, int, int], Work] = {}
        self._one_by_one = 0
        self._failed_turns = 0
        self._current: Work | None = None

    def run(self, stop: Stop) -> None:
        """Handle records until told to stop, or the handler fails for good. Then the transaction under way is rolled
        back, unless it is at its last record, and the partitions are handed over."""
        with self._consumer:
            while not stop.is_set:
                delay_s = self._turn(stop)
                if delay_s > 0:
                    stop.wait(delay_s)

    def wake(self) -> None:
        """Let it see that it was told to stop."""
        self._consumer.wake()

    def _turn(self, stop: Stop) -> float:
        """One transaction, if there are records for one; the seconds to wait before the next."""
        works: list[Work] = []
        try:
            records_max = 1 if self._one_by_one else self._settings.batch_records_max
            with self._consumer.transaction(max_records=records_max, wait_s=POLL_WAIT_S) as tx:
                works = [self._work_of(record) for record in tx.records]
                if works:
                    self._within_time(works, tx.conn, stop)
        except _Again as again:
            self._one_by_one = max(self._one_by_one, len(works))
            return again.delay_s
        except (HandlerFailed, HandlerStuck):
            raise
        except Fenced as error:
            logger.info("%s: %s", self._handler, error)
            self._failing.clear()
            self._one_by_one = max(self._one_by_one, len(works))
            return 0.0
        except TrunklineError as error:
            return self._after(works, error)
        self._done(works)
        return 0.0

    def _work_of(self, record: Record) -> Work:
        return self._failing.get(_place(record)) or Work(record, 0)

    def _done(self, works: Sequence[Work]) -> None:
        self._failed_turns = 0
        self._one_by_one = max(0, self._one_by_one - len(works))
        for work in works:
            self._failing.pop(_place(work.record), None)

    def _after(self, works: Sequence[Work], error: TrunklineError) -> float:
        """What to do where the transaction itself failed: at its begin, or at its commit (a deferred constraint)."""
        if may_pass(error) or (isinstance(error, OutcomeUnknown) and not works):
            logger.warning("%s: %s; it is tried again", self._handler, error)
        elif not works:
            raise error
        elif len(works) == 1:
            delay_s = self._attempts.after(works[0], error)
            self._note(works[0])
            return delay_s
        self._one_by_one = max(self._one_by_one, len(works))
        self._failed_turns += 1
        return backoff_s(
            self._failed_turns - 1,
            first_s=self._settings.retry_first_s,
            max_s=self._settings.retry_max_s,
            chance=random.random(),
        )

    def _note(self, work: Work) -> None:
        """Remember how often a record has failed, until it is done."""
        work.pauses += 1
        self._failing[_place(work.record)] = work

    def _within_time(self, works: Sequence[Work], conn: Connection[Any], stop: Stop) -> None:
        """Handle records in a task of their own, to be left alone should the handler not return."""
        ended: Waiter[bool] = Waiter()
        self._begin(works[0])

        def handle(_: Stop) -> None:
            try:
                self._handle(works, conn, stop)
            finally:
                ended.give(True)

        service = Service(f"trunkline-{self._handler.group}", handle)
        while ended.given is None:
            current = self._current
            assert current is not None
            left_s = current.started + self._settings.handler_timeout_s - monotonic()
            if left_s <= 0:
                service.abandon()
                raise self._handler.stuck(current.record)
            with suppress(TimeoutError):
                ended.wait(left_s)
        service.close()

    def _begin(self, work: Work) -> None:
        work.started = monotonic()
        self._current = work

    def _handle(self, works: Sequence[Work], conn: Connection[Any], stop: Stop) -> None:
        for work in works:
            if stop.is_set and work is not works[0]:
                raise _Again(0.0)
            self._begin(work)
            delay_s = self._attempts.make(work, conn)
            if delay_s is not None:
                self._note(work)
                raise _Again(delay_s)


def _place(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset
