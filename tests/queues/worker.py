"""The program of one process with a queue: `python -m tests.queues.worker '<settings as JSON>'`.

It writes down what it does in a file of its own, a line each, before it goes on: what it was handed, what it is about
to settle, how that was answered. A line is one write, so whatever kills the process tears nothing.

Left alone it works until it is asked to end with SIGTERM; with ``is_told`` it does what it reads from its input: a line
``receive``, ``ack``, ``nack`` or ``extend`` each. A publisher publishes so many records, and ends.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import Literal

import msgspec

import trunkline
from tests.groups.worker import Notes
from trunkline.client.sync.queue import Queue
from trunkline.client.sync.queue_delivery import Delivery
from trunkline.errors import ClaimLost, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import Message

POISON = b"poison"
Kind = Literal["a", "n", "r", "d", "j", "e"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is to do. ``publishes``: how many records, instead of reading. ``is_steady``: it acknowledges
    whatever does not kill it; otherwise it now and then gives back, extends, forgets."""

    url: str
    number: int
    log: str
    seed: int
    topic: str = "t"
    queue: str = "q"
    prefetch: int = 100
    is_told: bool = False
    is_steady: bool = False
    publishes: int = 0
    partitions: int = 1


class Worker:
    """A reader of a queue that writes down what it does."""

    def __init__(self, task: Task, notes: Notes, queue: Queue) -> None:
        self.task = task
        self.notes = notes
        self.queue = queue
        self.ended = threading.Event()
        self.in_hand: list[Delivery] = []
        self._chance = random.Random(f"{task.seed} {task.number}")
        self._numbers = count(1)

    def work_on(self) -> None:
        """Receive and settle until asked to end. A server that is away is waited for."""
        while not self.ended.is_set():
            try:
                self.receive(self._chance.choice([1, 7, 50]))
            except (OutcomeUnknown, Unavailable) as error:
                self.notes.write("away", error=repr(error))
                continue
            if any(delivery.payload == POISON for delivery in self.in_hand):
                os._exit(9)
            chance = 0.5 if self.task.is_steady else self._chance.random()
            if chance < 0.05:
                self.settle("e", self.in_hand, 1.0)
            if chance < 0.15:
                self.settle("a", self.in_hand[::2])
            if chance > 0.95:
                self.settle("n", self.in_hand, self._chance.choice([0.0, 0.1]))
            elif chance > 0.94:
                # Forgotten, until the deadline has passed.
                self.in_hand = []
            self.settle("a", self.in_hand)

    def receive(self, records: int = 100, wait_s: float = 0.2) -> bool:
        """Take what there is in hand, in the place of what was."""
        self.in_hand = self.queue.receive(records, wait_s=wait_s)
        by_claim: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
        for delivery in self.in_hand:
            by_claim[delivery.partition, delivery.claim.claim_no].append(delivery)
        claims = [
            [*place, every[0].attempt, every[0].claim.expires_at, [delivery.offset for delivery in every]]
            for place, every in by_claim.items()
        ]
        if claims:
            self.notes.write("handed", claims=claims)
        return bool(claims)

    def settle(self, kind: Kind, deliveries: Sequence[Delivery], delay_s: float = 0.0) -> None:
        """Those are not in hand any more, but for an extension."""
        chosen = list(deliveries)
        if not chosen:
            return
        if kind != "e":
            self.in_hand = [delivery for delivery in self.in_hand if delivery not in chosen]
        number = next(self._numbers)
        places = [[each.partition, each.claim.claim_no, each.offset] for each in chosen]
        self.notes.write("settling", number=number, kind=kind, places=places, delay_s=delay_s)
        answer, lost = self._settle(kind, chosen, delay_s)
        self.notes.write("settled", number=number, answer=answer, lost=lost)

    def _settle(self, kind: Kind, chosen: list[Delivery], delay_s: float) -> tuple[str, list[list[int]]]:
        try:
            match kind:
                case "a":
                    self.queue.ack(chosen)
                case "n":
                    self.queue.nack(chosen, delay_s=delay_s)
                case _:
                    self.queue.extend(chosen, delay_s)
        except ClaimLost as error:
            return "done", [list(place) for place in error.places]
        except OutcomeUnknown:
            return "unknown", []
        except TrunklineError as error:
            self.notes.write("away", error=repr(error))
            return "unknown", []
        return "done", []

    def do_as_told(self) -> None:
        """Ends with its input."""
        for line in sys.stdin:
            match line.strip():
                case "receive":
                    while not self.receive():
                        self.notes.write("waiting")
                case "ack":
                    self.settle("a", self.in_hand)
                case "nack":
                    self.settle("n", self.in_hand)
                case "extend":
                    self.settle("e", self.in_hand, 30.0)


def publish(task: Task, notes: Notes) -> None:
    """A few records at a time, until all are published or it is killed."""
    chance = random.Random(f"{task.seed} {task.number}")
    left = task.publishes
    with trunkline.connect(task.url) as tl:
        notes.write("begun")
        while left > 0:
            size = min(left, chance.randint(1, 20))
            partition = chance.randrange(task.partitions)
            tl.publish_many(task.topic, [Message(b"x", partition=partition)] * size)
            left -= size


def read(task: Task, notes: Notes) -> None:
    with (
        trunkline.connect(task.url) as tl,
        tl.queue(task.topic, task.queue, create=False, prefetch=task.prefetch) as queue,
    ):
        worker = Worker(task, notes, queue)
        signal.signal(signal.SIGTERM, lambda *_: worker.ended.set())
        notes.write("begun")
        (worker.do_as_told if task.is_told else worker.work_on)()


def run(task: Task) -> None:
    notes = Notes(task.log)
    try:
        (publish if task.publishes else read)(task, notes)
    except BaseException:
        notes.write("failed", error=traceback.format_exc())
        raise
    notes.write("ended", at_s=time.monotonic())


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Task))
