"""From a subscription of any driver to a topic of any driver, at least once.

A message is acknowledged at its source after the target has it durably, so whatever ends a bridge loses nothing: what
was not acknowledged comes again, to the next one. Where it ends between the two, the message is sent twice. Body, key
and attributes are kept, and the order as far as both drivers keep any.

It deals in the batches of drivers: one receive, one send and one acknowledgement for up to ``batch_max`` messages; more
sends and acknowledgements where the URLs say that batches are smaller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from types import NoneType
from typing import Any, Literal

import msgspec

from trunkline.engine.checks import check_attributes, check_whole
from trunkline.engine.gathering import GatherLimits, Line
from trunkline.errors import ClaimLost, InvalidArgument, TrunklineError
from trunkline.portable.aio.calls import BatchCalls, Calls
from trunkline.portable.aio.driver import AsyncSubscriptionDriver, AsyncTopicDriver
from trunkline.portable.batches import subscription_driver, topic_driver
from trunkline.portable.driver import Incoming, Outgoing
from trunkline.portable.plan import Plan, plan_subscription, plan_topic
from trunkline.settings import ReceiveSettings, SendSettings

logger = logging.getLogger("trunkline")

WAIT_S = 5.0
"""How long one receive waits; then the next one does."""

REASON_ATTRIBUTE = "trunkline-refused-reason"
"""Why the target has refused a message that was put aside."""
REASON_MAX = 1_000

Ended = Literal["max", "empty", "idle", "stopped"]


class BridgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one bridge does.

    It ends after ``messages_max`` messages; when there are none (``until_empty``); when none has come for ``idle_s``;
    when it is told to. With ``id_attribute`` each message gets its source's id as an attribute of that name, unless it
    has one already, by which its readers know what was sent twice. What the target refuses is sent to ``refused_to``,
    with the reason as an attribute; without it such a message stays at its source, and ends the bridge.
    """

    messages_max: int | None = None
    until_empty: bool = False
    idle_s: float | None = None
    id_attribute: str | None = None
    refused_to: str | None = None
    batch_max: int = 1_000

    def __post_init__(self) -> None:
        check_whole("batch_max", self.batch_max, least=1, most=10_000)
        if self.messages_max is not None:
            check_whole("messages_max", self.messages_max, least=1)
        if self.until_empty and self.idle_s is not None:
            raise InvalidArgument("until_empty ends sooner than idle_s: give one of them")
        if self.idle_s is not None and not 0 < self.idle_s < float("inf"):
            raise InvalidArgument(f"idle_s must be a positive number of seconds, not {self.idle_s!r}")
        if self.id_attribute is not None:
            check_attributes({self.id_attribute: ""})


class BridgeReport(msgspec.Struct):
    """How far it has come: ``moved`` were sent and acknowledged; ``late`` were sent, and their acknowledgement came
    after their deadline, so they are sent again. ``refused`` of both were sent to the place for such messages."""

    moved: int = 0
    late: int = 0
    refused: int = 0
    ended: Ended | None = None


class Bridge:
    """One bridge. ``stop`` may be called by a signal's handler; ``progress`` gets the report after every batch."""

    def __init__(
        self,
        from_url: str,
        to_url: str,
        settings: BridgeSettings | None = None,
        progress: Callable[[BridgeReport], None] = lambda _: None,
    ) -> None:
        self._settings = settings or BridgeSettings()
        # Nothing is taken ahead: whole batches are asked for, and others get the rest.
        self._source_plan = plan_subscription(from_url, {"prefetch_max": 0}, ("acks",))
        self._target_plan = plan_topic(to_url, {}, ())
        refused_to = self._settings.refused_to
        self._refused_plan = None if refused_to is None else plan_topic(refused_to, {}, ())
        self._progress = progress
        self._stopped = asyncio.Event()
        self.report = BridgeReport()

    def stop(self) -> None:
        """Finish what is in hand, and end. Twice is fine."""
        self._stopped.set()

    async def run(self) -> BridgeReport:
        """Move messages until an end; raises what cannot be sent or received, with everything else settled."""
        receiving = Calls(self._source_plan)
        async with AsyncExitStack() as stack:
            target = await _opened(self._target_plan, stack)
            aside = None if self._refused_plan is None else await _opened(self._refused_plan, stack)
            subscription = await stack.enter_async_context(subscription_driver(self._source_plan, receiving))
            source = stack.enter_context(closing(_Source(subscription, self._source_plan, receiving)))
            while self.report.ended is None:
                batch = await self._next(source)
                if batch:
                    await self._move(batch, source, target, aside)
        return self.report

    # -- receiving --

    async def _next(self, source: _Source) -> Sequence[Incoming]:
        """The next messages; none where that is the end, or nothing came for a while."""
        wanted = self._wanted()
        if wanted == 0 or self._stopped.is_set():
            self.report.ended = "max" if wanted == 0 else "stopped"
            return ()
        settings = self._settings
        wait_s = 0.0 if settings.until_empty else WAIT_S if settings.idle_s is None else settings.idle_s
        receiving = asyncio.ensure_future(source.receive(wanted, wait_s))
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                receiving.cancel()
                with suppress(asyncio.CancelledError):
                    return await receiving
                return ()
            batch = await receiving
        finally:
            receiving.cancel()
            stopping.cancel()
        if not batch and (settings.until_empty or settings.idle_s is not None):
            self.report.ended = "empty" if settings.until_empty else "idle"
        return batch

    def _wanted(self) -> int:
        settings = self._settings
        if settings.messages_max is None:
            return settings.batch_max
        return min(settings.batch_max, settings.messages_max - self.report.moved - self.report.late)

    # -- moving --

    async def _move(self, batch: Sequence[Incoming], source: _Source, target: _Target, aside: _Target | None) -> None:
        answers = await target.send(map(self._outgoing, batch))
        if aside is not None:
            await self._put_aside(batch, answers, aside)
        refused = [place for place, answer in enumerate(answers) if isinstance(answer, TrunklineError)]
        if not refused:
            await self._acknowledge(batch, source)
            return
        left = {*refused, *range(len(answers), len(batch))}
        sent = [each for place, each in enumerate(batch) if place not in left]
        try:
            if sent:
                await self._acknowledge(sent, source)
        finally:
            await source.release([batch[place] for place in sorted(left)])
        error = answers[refused[0]]
        assert isinstance(error, TrunklineError)
        error.args = (f"message {batch[refused[0]].id} of {source.shown} was not sent, and stays there: {error}",)
        raise error

    async def _put_aside(self, batch: Sequence[Incoming], answers: list[str | TrunklineError], aside: _Target) -> None:
        """Send what was refused elsewhere; its answers are those from there."""
        refused = {place: answer for place, answer in enumerate(answers) if isinstance(answer, InvalidArgument)}
        marked = (
            self._outgoing(batch[place], {REASON_ATTRIBUTE: f"{error.code}: {error}"[:REASON_MAX]})
            for place, error in refused.items()
        )
        found = await aside.send(marked)
        for place, answer in zip(refused, found, strict=False):
            answers[place] = answer
            if not isinstance(answer, TrunklineError):
                self.report.refused += 1
                logger.warning("message %s was refused, and put aside: %s", batch[place].id, refused[place])

    def _outgoing(self, message: Incoming, more: Mapping[str, str] | None = None) -> Outgoing:
        attributes = dict(message.attributes)
        name = self._settings.id_attribute
        if name is not None:
            attributes.setdefault(name, message.id)
        if more is not None:
            attributes.update(more)
        return Outgoing(message.body, message.key, attributes)

    async def _acknowledge(self, sent: Sequence[Incoming], source: _Source) -> None:
        answers = await source.ack(sent)
        failures = [answer for answer in answers if answer is not None]
        late = [each for each in failures if isinstance(each, ClaimLost)]
        self.report.moved += len(answers) - len(failures)
        self.report.late += len(late)
        self._progress(self.report)
        if late:
            logger.warning(
                "%d messages were sent, and acknowledged too late: they are sent again: %s", len(late), late[0]
            )
        for failure in failures:
            if not isinstance(failure, ClaimLost):
                raise failure


class _Source:
    """Where messages come from, with the library's patience."""

    def __init__(self, driver: AsyncSubscriptionDriver, plan: Plan[ReceiveSettings], calls: Calls) -> None:
        self._driver = driver
        self._calls = calls
        self._ack_batch_max = plan.settings.ack_batch_max
        self.shown = plan.shown
        self._acks: BatchCalls[Any, None] = BatchCalls(calls, self._ack, NoneType)

    async def receive(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        async def call() -> Sequence[Incoming]:
            return await self._driver.receive_batch(max_messages, wait_s)

        return await self._calls.persistently(call, wait_s)

    async def ack(self, messages: Sequence[Incoming]) -> Sequence[TrunklineError | None]:
        """An answer for each, up to the first batch in which one failed that was not late."""
        ack_ids = [each.ack_id for each in messages]
        answers: list[TrunklineError | None] = []
        for start in range(0, len(ack_ids), self._ack_batch_max):
            found = await self._acks.each(ack_ids[start : start + self._ack_batch_max])
            answers += found
            if any(each is not None and not isinstance(each, ClaimLost) for each in found):
                break
        return answers

    async def _ack(self, ack_ids: list[Any]) -> Sequence[TrunklineError | None]:
        answers = await self._driver.ack(ack_ids)
        return [None] * len(ack_ids) if answers is None else answers

    def close(self) -> None:
        self._acks.close()

    async def release(self, messages: Sequence[Incoming]) -> None:
        """Let others have them at once. Where that fails they come again after their deadline."""

        async def call() -> None:
            await self._driver.release([each.ack_id for each in messages])

        try:
            await self._calls.once(call, self._calls.deadline_s)
        except TrunklineError as error:
            logger.warning("%d messages could not be given back to %s: %s", len(messages), self.shown, error)


async def _opened(plan: Plan[SendSettings], stack: AsyncExitStack) -> _Target:
    calls = Calls(plan)
    topic = await stack.enter_async_context(topic_driver(plan, calls))
    return stack.enter_context(closing(_Target(topic, plan.settings, calls)))


class _Target:
    """Where messages go to, with the library's patience."""

    def __init__(self, driver: AsyncTopicDriver, settings: SendSettings, calls: Calls) -> None:
        self._limits = GatherLimits(settings.batch_messages_max, settings.batch_bytes_max, settings.buffer_bytes_max)
        self._sends: BatchCalls[Outgoing, str] = BatchCalls(calls, driver.send_batch, str)

    async def send(self, messages: Iterable[Outgoing]) -> list[str | TrunklineError]:
        """An answer for each, up to the first batch in which one failed that was not refused: what comes after it is
        not sent."""
        line: Line[Outgoing] = Line(self._limits)
        for each in messages:
            line.join(each)
        answers: list[str | TrunklineError] = []
        while line:
            found = await self._sends.each(line.next_batch())
            answers += found
            if any(isinstance(each, TrunklineError) and not isinstance(each, InvalidArgument) for each in found):
                break
        return answers

    def close(self) -> None:
        self._sends.close()
