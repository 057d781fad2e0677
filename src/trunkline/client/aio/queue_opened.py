"""What one reader knows of a queue once it was opened."""

from __future__ import annotations

from typing import Any

from trunkline.client.aio.queue_calls import QueueCalls
from trunkline.client.aio.queue_lane import QueueLane
from trunkline.client.aio.queue_letters import QueueLetters
from trunkline.records import Topic


class Opened:
    """How the queue is set, and the ways to it: these may change while it is read."""

    def __init__(
        self, topic: Topic, calls: QueueCalls, lane: QueueLane, settings: dict[str, Any], letters: QueueLetters | None
    ) -> None:
        self.topic = topic
        self.calls = calls
        self.lane = lane
        self.set(settings, letters)

    def set(self, settings: dict[str, Any], letters: QueueLetters | None) -> None:
        """Take over how the queue is set."""
        self.settings = settings
        self.letters = self.lane.letters = letters
        self.ack_deadline_s: float = settings["ack_deadline_s"]
        self.max_attempts: int | None = settings["max_attempts"]
        self.lane.max_attempts = self.max_attempts
        self.is_ordered: bool = settings["is_ordered"]
