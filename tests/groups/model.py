"""A group as it is meant: cursors, and what each member has in hand. Who holds what it does not decide: it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.engine.holdings import Holding


@dataclass
class Log:
    """One partition: the log holds ``[start, end)``, the group stands at ``cursor``."""

    start: int = 1
    end: int = 1
    cursor: int = 1


@dataclass
class Hold:
    """A partition that a member believes to hold, in an epoch: up to where it has committed, and been handed out."""

    epoch: int
    committed: int
    handed: int

    @property
    def has_uncommitted(self) -> bool:
        return self.handed > self.committed


@dataclass
class MemberModel:
    """A real consumer, and what is known of it."""

    client: Client
    consumer: Consumer
    holds: dict[int, Hold] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)

    @property
    def member_id(self) -> int:
        assert self.consumer._member is not None
        return self.consumer._member.member_id

    @property
    def holdings(self) -> dict[int, Holding]:
        """What the consumer itself says, by partition."""
        assert self.consumer._member is not None
        return {holding.partition: holding for holding in self.consumer._member.holdings.values()}

    @property
    def has_lost(self) -> bool:
        """Whether something was lost that its application had in hand; the next commit says so."""
        assert self.consumer._member is not None
        return bool(self.consumer._member.lost)

    def attend(self) -> None:
        """Let it see to its group without handing out anything."""
        with self.consumer._using():
            self.consumer._ready()
            self.consumer._attend()

    def learn(self, logs: list[Log]) -> None:
        """After any call: forget what it holds no longer; what it has taken anew begins at the group's cursor."""
        holdings = self.holdings
        for partition in list(self.holds):
            if partition not in holdings or holdings[partition].epoch != self.holds[partition].epoch:
                del self.holds[partition]
        for partition, holding in holdings.items():
            if partition not in self.holds:
                cursor = logs[partition].cursor
                self.holds[partition] = Hold(holding.epoch, cursor, cursor)
            hold = self.holds[partition]
            assert (holding.committed, holding.handed) == (hold.committed, hold.handed), partition
