"""What one subscription of a memory broker has: messages that wait, that are held, that are delayed.

Every method expects the broker's lock to be held by its caller, except those of receivers, which take it.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, Protocol

import msgspec

from trunkline.errors import ClaimLost, NotFound, TrunklineError
from trunkline.portable.driver import Incoming, Outgoing


class HoldingSettings(NamedTuple):
    topic: str
    name: str
    ack_deadline_s: float
    max_attempts: int | None
    dead_letter: str | None
    is_ordered: bool


class Wakeable(Protocol):
    """A receiver that waits."""

    def wake(self) -> None: ...


class Letter(NamedTuple):
    """A message for the dead letter topic."""

    topic: str
    message: Outgoing


class Entry(msgspec.Struct, eq=False, gc=False):
    """A message in one subscription. A broker may hold very many, which the collector of garbage need not look at."""

    message: Outgoing
    id: str
    number: int
    attempts: int = 0


class Claim(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A delivery: the entry, and until when it is held."""

    entry: Entry
    expires_at: float


class Holding:
    """The messages of one subscription. Ack ids are numbers, a new one for each delivery: who is late finds his
    gone."""

    def __init__(self, settings: HoldingSettings, lock: threading.Lock) -> None:
        self.settings = settings
        self.is_deleted = False
        self._lock = lock
        self._waiting: deque[Entry] = deque()
        self._claims: dict[int, Claim] = {}
        self._delayed: list[tuple[float, int, Entry]] = []
        self._busy_keys: set[bytes] = set()
        self._receivers: deque[Wakeable] = deque()
        self._numbers = count(1)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._delayed)

    @property
    def held(self) -> int:
        return len(self._claims)

    def add(self, messages: Sequence[Outgoing], ids: Sequence[str]) -> None:
        self._waiting.extend(map(Entry, messages, ids, self._numbers))
        self._wake(len(messages))

    def fall_due(self, now: float) -> list[Letter]:
        """Give back what was held for too long, and what was delayed until now; the letters that this makes."""
        expired = [ack_id for ack_id, claim in self._claims.items() if claim.expires_at <= now]
        letters = self._give_back([self._claims.pop(ack_id).entry for ack_id in expired], "the deadline passed")
        due: list[Entry] = []
        while self._delayed and self._delayed[0][0] <= now:
            due.append(heapq.heappop(self._delayed)[2])
        self._put_first(due)
        return letters

    # -- receivers --

    def take(self, max_messages: int, ack_deadline_s: float, now: float, receiver: Wakeable | None) -> list[Incoming]:
        """Hand out what waits; where nothing does, ``receiver`` is woken when something comes."""
        with self._lock:
            if self.is_deleted:
                raise NotFound(f"subscription {self.settings.name} of {self.settings.topic} was deleted")
            entries = self._pick(max_messages)
            if not entries and receiver is not None:
                self._receivers.append(receiver)
            expires_at = now + ack_deadline_s
            found = []
            for entry in entries:
                entry.attempts += 1
                ack_id = next(self._numbers)
                self._claims[ack_id] = Claim(entry, expires_at)
                message = entry.message
                found.append(
                    Incoming(message.body, ack_id, message.key, message.attributes, entry.id, entry.attempts, entry)
                )
            return found

    def leave(self, receiver: Wakeable) -> None:
        """It waits no more. If it was woken meanwhile, another gets what it was woken for."""
        with self._lock:
            try:
                self._receivers.remove(receiver)
            except ValueError:
                self._wake(len(self._waiting))

    def wake(self, receiver: Wakeable) -> None:
        """Wake this one, whatever there is."""
        with self._lock:
            receiver.wake()

    def ack(self, ack_ids: Sequence[int]) -> list[TrunklineError | None] | None:
        with self._lock:
            if len(ack_ids) == 1 and not self._busy_keys and ack_ids[0] in self._claims:
                del self._claims[ack_ids[0]]
                return None
            return [self._settle(ack_id) for ack_id in ack_ids]

    def nack(self, ack_ids: Sequence[int], due_at: float | None) -> tuple[list[TrunklineError | None], list[Letter]]:
        """Give them back, at ``due_at`` if that is not None; and the letters of those that were tried too often."""
        with self._lock:
            answers: list[TrunklineError | None] = []
            entries: list[Entry] = []
            for ack_id in ack_ids:
                claim = self._claims.pop(ack_id, None)
                answers.append(self._lost(ack_id) if claim is None else None)
                if claim is not None:
                    entries.append(claim.entry)
            return answers, self._give_back(entries, "given back by its receiver", due_at)

    def release(self, ack_ids: Sequence[int]) -> None:
        with self._lock:
            claims = [self._claims.pop(ack_id) for ack_id in ack_ids if ack_id in self._claims]
            for claim in claims:
                claim.entry.attempts -= 1
            self._put_first([claim.entry for claim in claims])

    # -- within the lock --

    def _pick(self, max_messages: int) -> list[Entry]:
        waiting = self._waiting
        if not self.settings.is_ordered:
            return [waiting.popleft() for _ in range(min(max_messages, len(waiting)))]
        picked: list[Entry] = []
        passed: list[Entry] = []
        while waiting and len(picked) < max_messages:
            entry = waiting.popleft()
            key = entry.message.key
            if key is not None and key in self._busy_keys:
                passed.append(entry)
                continue
            if key is not None:
                self._busy_keys.add(key)
            picked.append(entry)
        waiting.extendleft(reversed(passed))
        return picked

    def _settle(self, ack_id: int) -> TrunklineError | None:
        claim = self._claims.pop(ack_id, None)
        if claim is None:
            return self._lost(ack_id)
        self._free(claim.entry)
        return None

    def _free(self, entry: Entry) -> None:
        """Its key's next message may be handed out."""
        if self.settings.is_ordered and entry.message.key is not None:
            self._busy_keys.discard(entry.message.key)
            self._wake(1)

    def _give_back(self, entries: Sequence[Entry], reason: str, due_at: float | None = None) -> list[Letter]:
        most = self.settings.max_attempts
        spent = [entry for entry in entries if most is not None and entry.attempts >= most]
        again = [entry for entry in entries if most is None or entry.attempts < most]
        for entry in spent:
            self._free(entry)
        if due_at is None:
            self._put_first(again)
        else:
            for entry in again:
                # Its key stays busy: in order means that later ones wait for it.
                heapq.heappush(self._delayed, (due_at, entry.number, entry))
        return [self._letter(entry, reason) for entry in spent]

    def _put_first(self, entries: Sequence[Entry]) -> None:
        for entry in sorted(entries, key=lambda each: each.number, reverse=True):
            self._free(entry)
            self._waiting.appendleft(entry)
        self._wake(len(entries))

    def _letter(self, entry: Entry, reason: str) -> Letter:
        assert self.settings.dead_letter is not None
        death = {
            "trunkline-dl-topic": self.settings.topic,
            "trunkline-dl-attempts": str(entry.attempts),
            "trunkline-dl-reason": f"tried {entry.attempts} times, {reason}",
        }
        message = entry.message
        return Letter(self.settings.dead_letter, Outgoing(message.body, message.key, {**message.attributes, **death}))

    def _lost(self, ack_id: int) -> ClaimLost:
        return ClaimLost(
            f"delivery {ack_id} of {self.settings.topic} is no longer held by this receiver of {self.settings.name}; "
            "its deadline has passed, or it was settled; raise ack_deadline_s"
        )

    def _wake(self, messages: int) -> None:
        for _ in range(min(messages, len(self._receivers))):
            self._receivers.popleft().wake()

    def wake_all(self) -> None:
        self._wake(len(self._receivers))
