# Generated from src/trunkline/client/aio/attempts.py by tools/twins.py (make fix). Change the source, not this file.
"""What becomes of a record whose handler raises: it is tried again, put into the dead letter topic, or ends the app."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from trunkline.client.failures import may_pass
from trunkline.client.sync.client import Client
from trunkline.engine.backoff import backoff_s
from trunkline.engine.dead_letters import dead_letter, reason_of
from trunkline.engine.dispatch import Work
from trunkline.errors import HandlerFailed, HandlerStuck
from trunkline.records import Record
from trunkline.settings import By, Delivery, HandlerSettings

logger = logging.getLogger("trunkline")


class Handler(msgspec.Struct, frozen=True):
    """A function of the application, and what it is to be called for."""

    function: Callable[..., object]
    topics: tuple[str, ...]
    group: str
    concurrency: int
    create: bool
    delivery: Delivery
    dead_letter: str | None
    settings: HandlerSettings
    by: By | None = None

    @property
    def puts_away(self) -> bool:
        """Whether there is a place for what cannot be handled."""
        return self.dead_letter is not None or self.settings.blocked_keys

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', 'handler')} of group {self.group}"

    def at(self, record: Record) -> str:
        """The handler and where it is, for people."""
        return f"{self} at {record.topic}, partition {record.partition}, offset {record.offset}"

    def stuck(self, record: Record) -> HandlerStuck:
        return HandlerStuck(
            f"{self.at(record)} has not returned for {self.settings.handler_timeout_s:g} s; its partitions are given "
            "up, and the record comes again. Give what it waits for a time-out of its own, or raise handler_timeout_s"
        )


class Attempts:
    """One handler's attempts at records, and their failures."""

    def __init__(self, handler: Handler, client: Client) -> None:
        self._handler = handler
        self._settings = handler.settings
        self._client = client

    def make(self, work: Work, *arguments: Any) -> float | None:
        """Handle the record, or put it away where that is what is left to do.

        None: it is done with. Otherwise the seconds until the next attempt. HandlerFailed: there will be none.
        """
        try:
            if work.reason is None:
                self._handler.function(work.record, *arguments)
            else:
                self._put_away(work)
        except Exception as error:  # noqa: BLE001 - whatever an application raises
            return self.after(work, error)
        return None

    def after(self, work: Work, error: Exception) -> float:
        """The seconds until the next attempt at a record that has failed."""
        where = self._handler.at(work.record)
        if may_pass(error):
            logger.warning("%s: %s; it is tried again", where, reason_of(error))
            return self._pause_s(work)
        if work.reason is not None:
            raise HandlerFailed(
                f"{where} failed, and cannot be put into {self._handler.dead_letter}: {error}"
            ) from error
        work.failures += 1
        logger.warning("%s: attempt %d of %d failed", where, work.failures, self._settings.max_attempts, exc_info=error)
        if work.failures < self._settings.max_attempts:
            return self._pause_s(work)
        if not self._handler.puts_away:
            raise HandlerFailed(
                f"{where} failed {work.failures} times, and nothing after it is committed: {reason_of(error)}. Correct "
                "the handler, or name a dead letter topic: dead_letter=…"
            ) from error
        work.reason = reason_of(error)
        return 0.0

    def _pause_s(self, work: Work) -> float:
        settings = self._settings
        return backoff_s(
            work.pauses, first_s=settings.retry_first_s, max_s=settings.retry_max_s, chance=random.random()
        )

    def _put_away(self, work: Work) -> None:
        assert self._handler.dead_letter is not None
        assert work.reason is not None
        letter = dead_letter(work.record, attempts=work.failures, reason=work.reason, time=datetime.now(UTC))
        at = self._client.publish(self._handler.dead_letter, letter.body, key=letter.key, headers=letter.headers)
        logger.error(
            "%s was put into %s, partition %d, offset %d: %s",
            self._handler.at(work.record),
            at.topic,
            at.partition,
            at.offset,
            work.reason,
        )
