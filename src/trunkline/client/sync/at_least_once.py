# Generated from src/trunkline/client/aio/at_least_once.py by tools/twins.py (make fix). Change the source, not this file.
"""Handles a group's records at least once: many at a time, those of one key one after the other.

One task polls and commits, ``concurrency`` workers handle, and the dispatch between them (engine/dispatch.py) decides
what may begin and what is done. No transaction is open while a handler runs.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Collection
from contextlib import suppress
from time import monotonic

from trunkline.client.failures import may_pass
from trunkline.client.sync.attempts import Attempts, Handler
from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.client.sync.shim import Mutex, Service, Stop, Waiter
from trunkline.engine.backoff import backoff_s
from trunkline.engine.dispatch import Dispatch, PartitionName, Work
from trunkline.errors import Fenced, OutcomeUnknown, TrunklineError
from trunkline.records import Position, Record

logger = logging.getLogger("trunkline")

RECORDS_AT_ONCE = 500
POLL_WAIT_S = 1.0


class AtLeastOnce:
    """One handler at work. Its consumer is its own, and is closed by ``run``."""

    def __init__(self, handler: Handler, client: Client, consumer: Consumer) -> None:
        self._handler = handler
        self._settings = handler.settings
        self._consumer = consumer
        self._attempts = Attempts(handler, client)
        self._dispatch = Dispatch(
            concurrency=handler.concurrency,
            records_max=self._settings.in_hand_max,
            bytes_max=self._settings.in_hand_bytes_max,
        )
        # Guards everything below, and the dispatch.
        self._mutex = Mutex()
        self._idle: list[Waiter[bool]] = []
        self._ended: Waiter[bool] = Waiter()
        self._full: set[PartitionName] = set()
        self._retired: set[PartitionName] = set()
        self._is_ending = False
        self._failure: BaseException | None = None
        self._commit_due = 0.0

    def run(self, stop: Stop) -> None:
        """Handle records until told to stop, or a handler fails for good. Then what has begun is finished, what is done
        is committed, and the partitions are handed over; what has not begun goes to whoever reads on."""
        names = [f"trunkline-{self._handler.group}-{number}" for number in range(self._handler.concurrency)]
        workers = [Service(name, self._work) for name in names]
        with self._consumer:
            try:
                self._feed(stop)
                self._finish()
            finally:
                self._end()
                for worker in workers:
                    if self._dispatch.running:
                        worker.abandon()
                    else:
                        worker.close()
            if self._failure is not None:
                raise self._failure

    def wake(self) -> None:
        """Let it see that it was told to stop."""
        self._consumer.wake()

    # -- the task that polls and commits --

    def _feed(self, stop: Stop) -> None:
        failed_polls = 0
        while not (stop.is_set or self._is_ending):
            try:
                self._take_in(self._poll())
                self._give_back()
                self._commit_if_due()
                failed_polls = 0
            except TrunklineError as error:
                if not may_pass(error):
                    self._fail(error)
                    return
                logger.warning("%s cannot read, and tries again: %s", self._handler, error)
                stop.wait(self._pause_s(failed_polls))
                failed_polls += 1
            self._look_for_stuck()

    def _poll(self) -> list[Record]:
        with self._mutex:
            full = self._dispatch.full()
        for topic, partition in full - self._full:
            self._consumer.pause(topic, partition)
        for topic, partition in self._full - full:
            self._consumer.resume(topic, partition)
        with self._mutex:
            self._full = full
        return self._consumer.poll(
            max_records=min(RECORDS_AT_ONCE, self._settings.in_hand_max),
            bytes_max=self._settings.in_hand_bytes_max,
            wait_s=min(POLL_WAIT_S, self._settings.commit_interval_s),
        )

    def _take_in(self, records: list[Record]) -> None:
        with self._mutex:
            self._forget(self._consumer.take_lost())
            self._dispatch.add(records)
            self._wake_workers(self._dispatch.ready)

    def _forget(self, names: Collection[PartitionName]) -> None:
        self._dispatch.drop(names)
        self._retired.difference_update(names)

    def _give_back(self) -> None:
        """Let partitions that another member should have go as soon as nothing of them is being handled: what has not
        begun goes with them."""
        with self._mutex:
            leaving = set(self._consumer.leaving) - self._retired
            self._dispatch.retire(leaving)
            self._retired |= leaving
            free = [name for name in self._retired if not self._dispatch.is_busy(name)]
        if free:
            self._commit()
            for topic, partition in free:
                self._consumer.put_back(topic, partition)
            with self._mutex:
                self._forget(free)

    def _commit_if_due(self) -> None:
        if monotonic() >= self._commit_due:
            try:
                self._commit()
            except TrunklineError as error:
                if not may_pass(error):
                    raise
                logger.warning("%s cannot commit, and tries again: %s", self._handler, error)

    def _commit(self) -> None:
        """Commit what is done. Where a partition was lost nothing is written, so the others are committed again."""
        while positions := self._committable():
            try:
                self._consumer.commit(positions)
            except (Fenced, OutcomeUnknown) as error:
                refusal = error.__cause__ if isinstance(error, OutcomeUnknown) else error
                if not isinstance(refusal, Fenced):
                    raise
                logger.info("%s: %s", self._handler, error)
                with self._mutex:
                    self._forget(refusal.partitions)
            else:
                with self._mutex:
                    self._dispatch.committed(positions)
        self._commit_due = monotonic() + self._settings.commit_interval_s

    def _committable(self) -> list[Position]:
        with self._mutex:
            return self._dispatch.committable()

    def _look_for_stuck(self) -> None:
        with self._mutex:
            running = self._dispatch.running
        if running and not self._has_time(running[0]):
            self._fail(self._handler.stuck(running[0].record))

    def _has_time(self, work: Work) -> bool:
        return monotonic() < work.started + self._settings.handler_timeout_s

    def _finish(self) -> None:
        """Wait for the handlers that run, each as long as it has time, and commit."""
        self._end()
        while True:
            with self._mutex:
                running = [work for work in self._dispatch.running if self._has_time(work)]
                ended = self._ended = Waiter()
            if not running:
                break
            left_s = running[0].started + self._settings.handler_timeout_s - monotonic()
            with suppress(TimeoutError):
                ended.wait(max(0.0, min(left_s, self._settings.commit_interval_s)))
            self._commit_if_due()
        self._look_for_stuck()
        try:
            self._commit()
        except TrunklineError as error:
            self._fail(error)

    def _pause_s(self, attempt: int) -> float:
        settings = self._settings
        return backoff_s(attempt, first_s=settings.retry_first_s, max_s=settings.retry_max_s, chance=random.random())

    # -- the workers --

    def _work(self, _: Stop) -> None:
        while (work := self._next()) is not None:
            try:
                delay_s = self._attempts.make(work)
            except BaseException as error:  # noqa: BLE001 - raised again by run, in the task of who waits for it
                self._fail(error)
                delay_s = math.inf
            self._settle(work, delay_s)

    def _next(self) -> Work | None:
        """The next record to handle, waited for; None when there is an end."""
        while True:
            with self._mutex:
                if self._is_ending:
                    return None
                now = monotonic()
                work = self._dispatch.start(now)
                if work is not None:
                    return work
                due = self._dispatch.due()
                called: Waiter[bool] = Waiter()
                self._idle.append(called)
            try:
                called.wait(None if due is None else max(0.0, due - now))
            except TimeoutError:
                with self._mutex:
                    if called in self._idle:
                        self._idle.remove(called)

    def _settle(self, work: Work, delay_s: float | None) -> None:
        with self._mutex:
            if delay_s is None:
                self._dispatch.finish(work)
            else:
                self._dispatch.postpone(work, monotonic() + delay_s)
                # Who waits without an end has to know when this one is due.
                self._wake_workers(1)
            self._ended.give(True)
            changes = work.partition in self._retired or (
                work.partition in self._full and work.partition not in self._dispatch.full()
            )
        if changes:
            self._consumer.wake()

    def _wake_workers(self, count: int) -> None:
        for called in self._idle[:count]:
            called.give(True)
        del self._idle[:count]

    # -- the end --

    def _fail(self, error: BaseException) -> None:
        with self._mutex:
            if self._failure is None:
                self._failure = error
        self._end()
        self._consumer.wake()

    def _end(self) -> None:
        """No record is begun any more."""
        with self._mutex:
            self._is_ending = True
            self._wake_workers(len(self._idle))
