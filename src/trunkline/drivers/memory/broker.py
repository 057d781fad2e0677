"""A broker in this process's memory, for tests: complete, and with a clock that only a test moves.

    with MemoryBroker() as broker:
        broker.create_topic("orders")
        broker.create_subscription("orders", "emails", ack_deadline_s=30)
        ...                      # memory://orders and memory://orders?subscription=emails can be opened
        broker.advance(31)       # what was not acknowledged is delivered again

Safe for threads and for tasks of any event loop at the same time. Nothing is kept when it is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import count
from types import TracebackType
from urllib.parse import quote, urlencode

from trunkline.drivers.memory.holding import Holding, HoldingSettings, Letter
from trunkline.engine.checks import check_seconds, check_topic_name, check_whole
from trunkline.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from trunkline.portable.driver import Outgoing

_brokers: dict[str, MemoryBroker] = {}
"""Those that are open, by name. A URL is all that an application has, so a process needs one place to look it up."""
_registry_lock = threading.Lock()


def find_broker(name: str) -> MemoryBroker:
    """The open broker of this name."""
    found = _brokers.get(name)
    if found is None:
        called = f"MemoryBroker({name!r})" if name else "MemoryBroker()"
        raise NotFound(f"no memory broker {name!r} is open in this process; make one: with {called} as broker: …")
    return found


class MemoryBroker:
    """Topics and their subscriptions. Its name is the ``broker`` parameter of URLs; the nameless one needs none.

    ``now`` is in seconds and begins at 0. It moves by ``advance`` alone.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.now = 0.0
        self._lock = threading.Lock()
        self._topics: dict[str, dict[str, Holding]] = {}
        self._numbers = count(1)
        with _registry_lock:
            if name in _brokers:
                raise AlreadyExists(f"a memory broker {name!r} is open already; close it, or give this one a name")
            _brokers[name] = self

    def __enter__(self) -> MemoryBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything. Twice is fine."""
        with _registry_lock:
            if _brokers.get(self.name) is self:
                del _brokers[self.name]

    def __repr__(self) -> str:
        return f"<memory broker {self.name!r} with {len(self._topics)} topics>"

    # -- the operator's --

    def create_topic(self, name: str) -> None:
        check_topic_name(name)
        with self._lock:
            if name in self._topics:
                raise AlreadyExists(f"topic {name} exists already")
            self._topics[name] = {}

    def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        ack_deadline_s: float = 30.0,
        max_attempts: int | None = None,
        dead_letter: str | None = None,
        ordered: bool = False,
    ) -> None:
        """A subscription that gets what is sent from now on. What was delivered ``max_attempts`` times and is not
        acknowledged goes to the topic ``dead_letter``. ``ordered``: one message of a key at a time, in order."""
        if check_seconds("ack_deadline_s", ack_deadline_s) <= 0:
            raise InvalidArgument("ack_deadline_s must be more than 0")
        if (max_attempts is None) != (dead_letter is None):
            raise InvalidArgument("max_attempts and dead_letter belong together: give both, or neither")
        if max_attempts is not None:
            check_whole("max_attempts", max_attempts, least=1)
        with self._lock:
            subscriptions = self._of(topic)
            if name in subscriptions:
                raise AlreadyExists(f"topic {topic} has a subscription {name} already")
            if dead_letter is not None:
                self._of(dead_letter)
            settings = HoldingSettings(topic, name, ack_deadline_s, max_attempts, dead_letter, ordered)
            subscriptions[name] = Holding(settings, self._lock)

    def delete_topic(self, name: str) -> None:
        """It is gone, and its subscriptions with it: whoever uses it gets NotFound."""
        with self._lock:
            for holding in self._of(name).values():
                holding.is_deleted = True
                holding.wake_all()
            del self._topics[name]

    def advance(self, seconds: float) -> None:
        """Let time pass: deadlines and delays fall due."""
        check_seconds("seconds", seconds)
        with self._lock:
            self.now += seconds
            for subscriptions in list(self._topics.values()):
                for holding in subscriptions.values():
                    self._bury(holding.fall_due(self.now))

    # -- what a test may look at --

    def waiting(self, topic: str, subscription: str) -> int:
        """How many messages nobody holds, those that wait for a delay included."""
        with self._lock:
            return self._holding(topic, subscription).waiting

    def held(self, topic: str, subscription: str) -> int:
        """How many messages are held by receivers."""
        with self._lock:
            return self._holding(topic, subscription).held

    def topic_url(self, topic: str) -> str:
        return self._url(topic, {})

    def subscription_url(self, topic: str, subscription: str) -> str:
        return self._url(topic, {"subscription": subscription})

    def _url(self, topic: str, parameters: Mapping[str, str]) -> str:
        given = {**parameters, **({"broker": self.name} if self.name else {})}
        return f"memory://{quote(topic, safe='')}" + (f"?{urlencode(given)}" if given else "")

    # -- the drivers' --

    def find_topic(self, topic: str) -> None:
        with self._lock:
            self._of(topic)

    def find_subscription(self, topic: str, subscription: str) -> Holding:
        with self._lock:
            return self._holding(topic, subscription)

    def send(self, topic: str, messages: list[Outgoing]) -> list[str]:
        """Put the messages into every subscription of the topic; their ids."""
        with self._lock:
            subscriptions = self._of(topic)
            ids = [str(next(self._numbers)) for _ in messages]
            for holding in subscriptions.values():
                holding.add(messages, ids)
            return ids

    def bury(self, letters: list[Letter]) -> None:
        with self._lock:
            self._bury(letters)

    def _bury(self, letters: list[Letter]) -> None:
        for letter in letters:
            for holding in self._topics.get(letter.topic, {}).values():
                holding.add([letter.message], [str(next(self._numbers))])

    def _of(self, topic: str) -> dict[str, Holding]:
        if _brokers.get(self.name) is not self:
            raise FailedPrecondition(f"the memory broker {self.name!r} is closed")
        found = self._topics.get(topic)
        if found is None:
            raise NotFound(f"the memory broker has no topic {topic!r}; create it: broker.create_topic({topic!r})")
        return found

    def _holding(self, topic: str, subscription: str) -> Holding:
        found = self._of(topic).get(subscription)
        if found is None:
            raise NotFound(
                f"topic {topic} has no subscription {subscription!r}; create it: "
                f"broker.create_subscription({topic!r}, {subscription!r})"
            )
        return found
