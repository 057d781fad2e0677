"""A topic of any broker: send one message at a time, as many callers as you like."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from trunkline.engine.gathering import GatherLimits
from trunkline.errors import Closed, InvalidArgument, TrunklineError
from trunkline.portable.aio.calls import BatchCalls, Calls
from trunkline.portable.aio.driver import AsyncTopicDriver
from trunkline.portable.aio.lane import Lane
from trunkline.portable.aio.shim import Home, Once
from trunkline.portable.driver import OVERHEAD_BYTES, Capabilities, Outgoing
from trunkline.portable.outgoing import outgoing
from trunkline.portable.plan import Plan
from trunkline.records import Message
from trunkline.settings import SendSettings

logger = logging.getLogger("trunkline")

T = TypeVar("T")
BeforeSend = Callable[[Message], Message | None]
AfterSend = Callable[[Message, str], None]


class AsyncTopic:
    """Sends to one topic. Many tasks may share one: messages that are sent at the same time share batches."""

    def __init__(
        self,
        driver: AsyncTopicDriver,
        plan: Plan[SendSettings],
        *,
        before_send: BeforeSend | None = None,
        after_send: AfterSend | None = None,
    ) -> None:
        settings = plan.settings
        self._plan = plan
        self._driver = driver
        self._before_send = before_send
        self._after_send = after_send
        self._calls = Calls(plan)
        self._batches: BatchCalls[Outgoing, str] = BatchCalls(self._calls, driver.send_batch, str)
        self._lane: Lane[Outgoing, str] = Lane(
            self._batches.each,
            GatherLimits(settings.batch_messages_max, settings.batch_bytes_max, settings.buffer_bytes_max),
            wait_s=settings.send_wait_s,
            deadline_s=settings.deadline_s,
        )
        self._home = Home()
        self._closed = False
        self._closing = Once()

    def __repr__(self) -> str:
        return f"<trunkline topic {self._plan.shown}>"

    @property
    def capabilities(self) -> Capabilities:
        """What the broker can do here."""
        return self._driver.capabilities

    async def send(self, message: Message | bytes) -> str:
        """The message's id, once the broker has it durably; raises where it has not.

        Messages that are sent at the same time go together, and each caller gets the answer for its own. What may pass
        is tried again, for ``deadline_s`` in all. A send that is cancelled returns at once: the message may or may not
        have been sent. OutcomeUnknown says the same of one whose answer was lost.
        """
        self._home.check(self)
        if self._closed:
            raise Closed(f"{self!r} is closed; open another one")
        if self._before_send is not None:
            message = self._prepared(message)
        if type(message) is bytes:
            message_id = await self._lane.submit(Outgoing(message, None, {}), len(message) + OVERHEAD_BYTES)
        else:
            checked = outgoing(message)
            message_id = await self._lane.submit(checked, checked.size)
        if isinstance(message_id, TrunklineError):
            raise message_id
        if self._after_send is not None:
            self._tell(message, message_id)
        return message_id

    def _prepared(self, message: Message | bytes) -> Message:
        given = message if isinstance(message, Message) else Message(message)
        assert self._before_send is not None
        return self._before_send(given) or given

    def _tell(self, message: Message | bytes, message_id: str) -> None:
        assert self._after_send is not None
        try:
            self._after_send(message if isinstance(message, Message) else Message(message), message_id)
        except Exception:
            # The broker has the message: whoever sent it must not be told otherwise, and send it again.
            logger.exception("after_send failed for message %s of %r", message_id, self)

    def as_(self, kind: type[T]) -> T:
        """The broker's own object, for what only this broker can do; InvalidArgument where it has none of this kind."""
        return native(self._driver.native, kind, self)

    async def close(self) -> None:
        """Wait for what is being sent, for ``close_timeout_s`` at most, then give back connections. Twice is fine, and
        whoever comes second waits as well. A close that is cancelled goes on by itself."""
        if self._closing.is_done:
            return
        self._home.check(self)
        self._closed = True
        await self._closing.run(self._close)

    async def _close(self) -> None:
        timeout_s = self._plan.settings.close_timeout_s
        if not await self._lane.drain(timeout_s):
            logger.warning("%r: messages were still under way when it was closed", self)
        self._lane.give_up()
        self._batches.close()
        self._calls.stop()
        try:
            await self._calls.once(self._driver.close, timeout_s)
        except TrunklineError as error:
            logger.warning("%r could not be closed well: %s", self, error)

    async def __aenter__(self) -> AsyncTopic:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def native(found: object, kind: type[T], owner: object) -> T:
    """The object, if it is of this kind."""
    if isinstance(found, kind):
        return found
    has = "nothing of its broker's own" if found is None else f"a {type(found).__name__}"
    raise InvalidArgument(f"{owner!r} has {has}, not a {getattr(kind, '__name__', kind)}")
