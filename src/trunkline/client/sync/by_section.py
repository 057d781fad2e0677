# Generated from src/trunkline/client/aio/by_section.py by tools/twins.py (make fix). Change the source, not this file.
"""Handles a group's records by key and group key: all of one, in what was read at a time, in one call.

One transaction a batch, with the cursor in it; each call in a savepoint. Where a call fails the transaction is rolled
back and the batch taken again after a while, outside of any transaction, those that failed first. Where one has failed
for good, what it wrote is rolled back to its savepoint, its records are put away in the same transaction, and all the
others commit. An error that will pass fails the transaction, and counts against nobody.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from psycopg.pq import TransactionStatus

from trunkline.client import protocol
from trunkline.client.failures import may_pass
from trunkline.client.sync.attempts import Attempts, Handler
from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.client.sync.letters import Letters
from trunkline.client.sync.parking import Parking
from trunkline.client.sync.shim import Service, Stop, Waiter
from trunkline.client.sync.transaction import GroupTransaction
from trunkline.engine.backoff import backoff_s
from trunkline.engine.dead_letters import reason_of
from trunkline.engine.dispatch import Work
from trunkline.engine.sections import Section, SectionName, sections
from trunkline.errors import (
    Fenced,
    HandlerFailed,
    HandlerStuck,
    InvalidArgument,
    OutcomeUnknown,
    TrunklineError,
    Unavailable,
)

logger = logging.getLogger("trunkline")

RECORDS_AT_ONCE = 500
POLL_WAIT_S = 1.0
FENCED_PAUSE_S = 0.1
"""What was lost is still in hand until the group is looked at again."""


class _Again(Exception):
    """The transaction is to be rolled back, and its records taken again after a while."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s


class BySection:
    """One handler at work. Its consumer is its own, and is closed by ``run``."""

    def __init__(self, handler: Handler, client: Client, consumer: Consumer) -> None:
        self._handler = handler
        self._settings = handler.settings
        self._consumer = consumer
        self._attempts = Attempts(handler, client)
        self._letters = Letters(handler, client)
        self._failing: dict[SectionName, Work] = {}
        self._failed_turns = 0
        self._failed_commits = 0
        self._has_redriven = False
        self._current: Work | None = None

    def run(self, stop: Stop) -> None:
        """Handle records until told to stop, or the handler fails for good. Then the transaction under way is rolled
        back, unless it is at its last call, and the partitions are handed over."""
        with self._consumer:
            while not stop.is_set:
                delay_s = self._turn(stop)
                if delay_s > 0:
                    stop.wait(delay_s)

    def wake(self) -> None:
        """Let it see that it was told to stop."""
        self._consumer.wake()

    def _turn(self, stop: Stop) -> float:
        """One transaction; the seconds to wait before the next."""
        try:
            with self._consumer.transaction(
                max_records=min(RECORDS_AT_ONCE, self._settings.in_hand_max),
                bytes_max=self._settings.in_hand_bytes_max,
                # After a redrive there may be more of it, which no record announces.
                wait_s=0.0 if self._has_redriven else POLL_WAIT_S,
            ) as tx:
                self._has_redriven = False
                self._within_time(tx, stop)
        except _Again as again:
            return again.delay_s
        except (HandlerFailed, HandlerStuck):
            raise
        except Fenced as error:
            logger.info("%s: %s", self._handler, error)
            self._failing.clear()
            return min(self._settings.retry_first_s, FENCED_PAUSE_S)
        except TrunklineError as error:
            return self._after(error)
        self._failing.clear()
        self._failed_turns = self._failed_commits = 0
        return 0.0

    def _after(self, error: TrunklineError) -> float:
        """What to do where the transaction itself failed: at its begin, or at its commit.

        A commit says which constraint is broken, and not by whom: next time they are all looked at after each call.
        """
        if not may_pass(error) and not isinstance(error, OutcomeUnknown):
            self._failed_commits += 1
            if self._failed_commits > self._settings.max_attempts:
                raise HandlerFailed(f"{self._handler} cannot commit, though no record is to blame: {error}") from error
        logger.warning("%s: %s; it is tried again", self._handler, error)
        return self._pause_s()

    def _pause_s(self) -> float:
        settings = self._settings
        self._failed_turns += 1
        return backoff_s(
            self._failed_turns - 1, first_s=settings.retry_first_s, max_s=settings.retry_max_s, chance=random.random()
        )

    def _within_time(self, tx: GroupTransaction, stop: Stop) -> None:
        """Handle records in a task of their own, to be left alone should the handler not return."""
        ended: Waiter[bool] = Waiter()

        def handle(_: Stop) -> None:
            try:
                self._handle(tx, stop)
            finally:
                ended.give(True)

        service = Service(f"trunkline-{self._handler.group}", handle)
        while ended.given is None:
            current = self._current
            timeout_s = self._settings.handler_timeout_s
            left_s = timeout_s if current is None else current.started + timeout_s - monotonic()
            if current is not None and left_s <= 0:
                service.abandon()
                # Its savepoint is still open, in the hands of who does not return: only the server can end it.
                tx.conn.pgconn.finish()
                raise self._handler.stuck(current.record)
            with suppress(TimeoutError):
                ended.wait(left_s)
        service.close()

    # -- in the transaction --

    def _handle(self, tx: GroupTransaction, stop: Stop) -> None:
        parking = Parking(tx)
        self._redrive(tx, parking)
        found = sections(tx.records)
        waits = parking.blocked(found) if self._settings.blocked_keys else [None] * len(found)
        free = [section for section, behind in zip(found, waits, strict=True) if behind is None]
        given_up = self._handle_all(free, tx, stop)
        if given_up or len(free) < len(found):
            parking.begin()
        for section in given_up:
            work = self._failing[section.name]
            assert work.reason is not None
            parking.note_failure(section, attempts=work.failures, reason=work.reason)
            self._put_away(section, tx, parking, attempts=work.failures, reason=work.reason)
        for section, behind in zip(found, waits, strict=True):
            if behind is not None:
                reason = f"its key is blocked: it waits behind offset {behind}, until the group is redriven"
                self._put_away(section, tx, parking, attempts=0, reason=reason, behind=behind)

    def _handle_all(self, found: Sequence[Section], tx: GroupTransaction, stop: Stop) -> list[Section]:
        """Call the handler for each section; those that have failed for good. Where one is to be tried again nothing
        of this transaction stays, so that those which have failed before come first: the others need not be handled
        for nothing."""
        known = [section for section in found if section.name in self._failing]
        fresh = [section for section in found if section.name not in self._failing]
        given_up: list[Section] = []
        for part in (known, fresh):
            delays: list[float] = []
            for section in part:
                if stop.is_set and section is not found[0]:
                    raise _Again(0.0)
                delay_s = self._attempt(section, tx)
                if delay_s is not None:
                    delays.append(delay_s)
                elif self._is_given_up(section):
                    given_up.append(section)
            if delays:
                raise _Again(max(delays))
        return given_up

    def _is_given_up(self, section: Section) -> bool:
        return section.name in self._failing and self._failing[section.name].reason is not None

    def _attempt(self, section: Section, tx: GroupTransaction) -> float | None:
        """Call the handler in a savepoint. None: it is done with, one way or the other. Otherwise the seconds until the
        next attempt."""
        work = self._failing.get(section.name) or Work(section.records[0], 0)
        if work.reason is not None:
            return None
        error = self._call(work, section, tx)
        if error is None:
            return None
        delay_s = self._attempts.after(work, error)
        work.pauses += 1
        self._failing[section.name] = work
        return None if work.reason is not None else delay_s

    def _call(self, work: Work, section: Section, tx: GroupTransaction) -> Exception | None:
        """What the handler has failed with; its writes are rolled back then. _Again where the transaction is lost."""
        work.started = monotonic()
        self._current = work
        failure: Exception | None = None
        try:
            with tx.conn.transaction():
                self._handler.function(list(section.records), tx.conn)
                self._check_whole(tx)
                if self._failed_commits:
                    self._check_constraints(tx)
        except Exception as error:  # noqa: BLE001 - whatever an application raises
            failure = error
        self._current = None
        if failure is not None:
            self._check_goes_on(work, failure, tx)
        return failure

    def _check_whole(self, tx: GroupTransaction) -> None:
        if tx.conn.info.transaction_status == TransactionStatus.INERROR:
            raise InvalidArgument(
                "a statement has failed, and the handler went on: nothing that it wrote can be committed. Let the "
                "error go up, or put what may fail into `with conn.transaction():`"
            )

    def _check_constraints(self, tx: GroupTransaction) -> None:
        """Have what was deferred to the commit checked now, while it is known whose it is."""
        tx.conn.execute(protocol.CONSTRAINTS_NOW)
        tx.conn.execute(protocol.CONSTRAINTS_LATER)

    def _check_goes_on(self, work: Work, failure: Exception, tx: GroupTransaction) -> None:
        """An error that will pass fails the transaction, and so does one that took the connection with it."""
        is_lost = tx.conn.closed or tx.conn.info.transaction_status != TransactionStatus.INTRANS
        if is_lost and not may_pass(failure):
            lost = Unavailable(f"the transaction was lost while it was handled: {reason_of(failure)}")
            lost.__cause__, failure = failure, lost
        if may_pass(failure):
            self._attempts.after(work, failure)
            raise _Again(self._pause_s())

    def _put_away(
        self,
        section: Section,
        tx: GroupTransaction,
        parking: Parking,
        *,
        attempts: int,
        reason: str,
        behind: int | None = None,
    ) -> None:
        """To the dead letter topic; and where keys are blocked, or that takes no letter, parked until a redrive."""
        is_written = False
        try:
            is_written = self._letters.write(section, tx.conn, attempts=attempts, reason=reason)
        except TrunklineError as error:
            if may_pass(error):
                raise
            logger.error(  # noqa: TRY400 - the error says all there is to know
                "%s: its dead letters cannot be written, and its records are parked: %s",
                self._handler.at(section.records[0]),
                error,
            )
        if self._settings.blocked_keys or not is_written:
            parking.add(section, attempts=attempts, reason=reason, behind=behind)

    # -- what was parked --

    def _redrive(self, tx: GroupTransaction, parking: Parking) -> None:
        """Hand parked records of a key that is due to the handler, before anything newer of it."""
        section = parking.due(min(RECORDS_AT_ONCE, self._settings.in_hand_max))
        if section is None:
            return
        self._has_redriven = True
        where = self._handler.at(section.records[0])
        error = self._call(Work(section.records[0], 0), section, tx)
        if error is None:
            parking.done(section)
            logger.info("%s: %d parked records were redriven", where, len(section.records))
        else:
            logger.warning("%s: the redrive failed, and its records stay parked", where, exc_info=error)
            parking.failed(section, reason_of(error))
