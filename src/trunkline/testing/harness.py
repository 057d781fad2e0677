"""What the conformance suite needs of a driver's author: an operator's hands. It is the same for both worlds."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Harness(ABC):
    """Makes topics and subscriptions on the driver's broker, and lets time pass.

    Every topic and subscription that it makes is new, so that tests stand alone. Write the five methods; the rest has a
    meaning by default.
    """

    patience_s: float = 30.0
    """How long the suite waits for what must happen. It only guards against hanging."""

    quiet_s: float = 0.5
    """How long the suite waits to be sure that nothing comes. With a broker whose clock stands still, 0."""

    ack_deadline_s: float = 30.0
    """The deadline of subscriptions that are made for tests which let it pass. Short, where time passes by waiting; but
    1,000 messages are received and settled within it."""

    @abstractmethod
    def create_topic(self) -> str:
        """Make a topic; its URL."""

    @abstractmethod
    def create_subscription(self, topic_url: str, *, ordered: bool = False) -> str:
        """Make a subscription that gets everything that is sent to the topic from now on, with ``ack_deadline_s`` where
        the broker has deadlines; its URL. ``ordered`` is asked for where the driver declares an ordering."""

    @abstractmethod
    def missing_topic(self) -> str:
        """The URL of a topic that does not exist."""

    @abstractmethod
    def missing_subscription(self, topic_url: str) -> str:
        """The URL of a subscription that does not exist, of a topic that does."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let so much of the broker's time pass: move its clock, or wait."""

    def denied_topic(self) -> str | None:
        """The URL of a topic that its user must not send to; None: the broker refuses nobody."""
        return None
