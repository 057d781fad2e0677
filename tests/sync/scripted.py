# Generated from tests/aio/scripted.py by tools/twins.py (make fix). Change the source, not this file.
"""Drivers that do as they are told, and keep what they were asked: for tests of the library between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.sync.shim import Gate
from trunkline.errors import TrunklineError
from trunkline.portable.driver import Capabilities, Incoming, Outgoing
from trunkline.portable.plan import plan_subscription, plan_topic
from trunkline.portable.sync.subscription import Subscription
from trunkline.portable.sync.topic import Topic

ALL = Capabilities(nack_delay=True, ack_deadline=True, attempts=True)
URL = "memory://user:hunter2@orders"

Answer = list[str | TrunklineError] | BaseException | None


class ScriptedTopic:
    """Answers as the script says, then well; ``gate`` holds every call back, until it is opened."""

    def __init__(self, script: Iterable[Answer] = (), gate: Gate | None = None) -> None:
        self.capabilities = ALL
        self.native: Any = self
        self.batches: list[list[bytes]] = []
        self.script = deque(script)
        self.gate = gate
        self.refused: dict[bytes, TrunklineError] = {}
        self.is_closed = False

    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        self.batches.append([each.body for each in messages])
        if self.gate is not None:
            self.gate.wait()
        for each in messages:
            if each.body in self.refused:
                raise self.refused[each.body]
        answer = self.script.popleft() if self.script else None
        if isinstance(answer, BaseException):
            raise answer
        return [f"id-{each.body.decode()}" for each in messages] if answer is None else answer

    def close(self) -> None:
        self.is_closed = True

    def opened(self, url: str = URL, **options: Any) -> Topic:
        hooks = {name: options.pop(name) for name in ("before_send", "after_send") if name in options}
        return Topic(self, plan_topic(url, options, ()), **hooks)


class ScriptedSubscription:
    """Hands out ``stock``; what was asked, acknowledged and given back is kept. ``on_receive`` comes before each fetch,
    ``on_settle`` before each acknowledgement."""

    def __init__(self, stock: int = 0, capabilities: Capabilities = ALL, ack_deadline_s: float | None = None) -> None:
        self.capabilities = capabilities
        self.native: Any = self
        self.ack_deadline_s = ack_deadline_s
        self.stock = deque(Incoming(b"%d" % number, number, id=str(number)) for number in range(stock))
        self.asked: list[tuple[int, float]] = []
        self.acked: list[list[Any]] = []
        self.nacked: list[tuple[list[Any], float]] = []
        self.released: list[Any] = []
        self.answers: deque[Sequence[TrunklineError | None] | BaseException | None] = deque()
        self.failures: deque[BaseException] = deque()
        self.on_receive: Callable[[], None] | None = None
        self.on_settle: Callable[[], None] | None = None
        self.surplus = 0
        self.is_closed = False

    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        self.asked.append((max_messages, wait_s))
        if self.on_receive is not None:
            self.on_receive()
        if self.failures:
            raise self.failures.popleft()
        return [self.stock.popleft() for _ in range(min(len(self.stock), max_messages + self.surplus))]

    def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        self.acked.append(list(ack_ids))
        return self._settled()

    def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        self.nacked.append((list(ack_ids), delay_s))
        return self._settled()

    def _settled(self) -> Sequence[TrunklineError | None] | None:
        if self.on_settle is not None:
            self.on_settle()
        answer = self.answers.popleft() if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def release(self, ack_ids: Sequence[Any]) -> None:
        self.released += ack_ids

    def close(self) -> None:
        self.is_closed = True

    def opened(self, url: str = f"{URL}?subscription=emails", **options: Any) -> Subscription:
        return Subscription(self, plan_subscription(url, options, ()))
