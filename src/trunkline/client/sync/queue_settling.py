# Generated from src/trunkline/client/aio/queue_settling.py by tools/twins.py (make fix). Change the source, not this file.
"""What becomes of the deliveries of one reader: they are noted as being settled, ordered from its lane, and put back
where that did not work out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from time import monotonic

from trunkline.client.sync.queue_delivery import Chosen, Delivery
from trunkline.client.sync.queue_lane import Order
from trunkline.client.sync.queue_letters import Grave
from trunkline.client.sync.queue_opened import Opened
from trunkline.client.sync.server import Server
from trunkline.client.sync.shim import Mutex
from trunkline.engine.deliveries import Buffer, Claim, Kind, Settlement
from trunkline.errors import ClaimLost, InvalidArgument, OutcomeUnknown, TrunklineError


class Settling:
    """Settles deliveries that ``queue`` has handed out. ``mutex`` guards the buffer and its claims; ``go_on`` is called
    when those who wait may find something."""

    def __init__(
        self,
        server: Server,
        mutex: Mutex,
        buffer: Buffer[Delivery],
        queue: str,
        go_on: Callable[[], None],
    ) -> None:
        self._server = server
        self._mutex = mutex
        self._buffer = buffer
        self._name = queue
        self._go_on = go_on

    def settle(
        self, opened: Opened, chosen: Chosen, kind: Kind, delay_s: float = 0.0, *, reason: str = "", wanted: int = 0
    ) -> list[Delivery]:
        """Settle those that are held; the others."""
        if not chosen:
            return []
        with self._mutex:
            held, lost = self._begin(chosen, kind, is_ordered=opened.is_ordered)
        if not held:
            return lost
        deadline = self._server.deadline()
        if kind == "d":
            graves = [_grave(each, reason) for each in chain.from_iterable(held.values())]
            order = Order(deadline, graves=graves)
        else:
            order = Order(deadline, _settlements(held, kind, delay_s), wanted=wanted)
        return lost + self._ordered(opened, order, held, kind)

    def prolong(self, opened: Opened, claims: Iterable[Claim]) -> None:
        """Hold claims for longer that have waited in memory. Of those that are lost nothing is handed out."""
        wanted = [Settlement(claim, "e", (), opened.ack_deadline_s) for claim in claims]
        order = Order(self._server.deadline(), wanted)
        try:
            opened.lane.submit(order)
        except OutcomeUnknown:
            for settlement in wanted:
                settlement.claim.lose()

    def _ordered(self, opened: Opened, order: Order, held: Chosen, kind: Kind) -> list[Delivery]:
        """Have it done what was begun; those whose claims turn out to be lost."""
        try:
            opened.lane.submit(order)
        except BaseException as error:
            self.undo_order(order, error, held, kind)
            raise
        return self.ended(opened, order, held)

    def undo_order(self, order: Order, error: BaseException, held: Chosen, kind: Kind) -> None:
        # Interrupted by a signal, or cancelled, it may still be under way: then whoever is at it goes on.
        failure = error if isinstance(error, TrunklineError) else order.error
        if failure is not None or order.is_withdrawn:
            self._undo(held, kind, is_unknown=isinstance(failure, OutcomeUnknown))

    def ended(self, opened: Opened, order: Order, held: Chosen) -> list[Delivery]:
        """It was answered; those whose claims turned out to be lost."""
        if opened.lane.is_waiting:
            # Those go on who could not claim anything while a record was held alone.
            opened.lane.is_waiting = False
            self._go_on()
        lost: list[Delivery] = []
        if order.lost:
            with self._mutex:
                for claim in order.lost:
                    lost += held[claim]
                    claim.lose(_offsets(held[claim]))
        return lost

    def _begin(self, chosen: Chosen, kind: Kind, *, is_ordered: bool) -> tuple[Chosen, list[Delivery]]:
        """Note that they are being settled; those that are held, and those that are lost already."""
        lost: list[Delivery] = []
        if not all(claim.are_open(_offsets(deliveries)) for claim, deliveries in chosen.items()):
            check_unsettled(chosen)
            chosen, lost = _open_of(chosen)
        if kind != "e":
            for claim, deliveries in chosen.items():
                claim.begin(_offsets(deliveries))
        if is_ordered and kind in ("n", "r"):
            for claim in chosen:
                claim.give_back()
                self._buffer.give_back(claim)
        return chosen, lost

    def _undo(self, chosen: Chosen, kind: Kind, *, is_unknown: bool) -> None:
        """Nothing was settled: they are in the application's hands as before. Where that is not known, the claim is not
        touched any more; what of it was not settled is delivered again."""
        with self._mutex:
            for claim, deliveries in chosen.items():
                if is_unknown:
                    claim.lose(_offsets(deliveries))
                elif kind != "e":
                    claim.put_back(_offsets(deliveries))

    def raise_lost(self, opened: Opened, lost: list[Delivery]) -> None:
        if not lost:
            return
        places = sorted((each.partition, each.offset) for each in lost)
        shown = ", ".join(f"offset {offset} in partition {partition}" for partition, offset in places[:10])
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        raise ClaimLost(
            f"{shown}{more} of {opened.topic.name}: no longer held by this reader of queue {self._name}; the "
            f"deadline of {opened.ack_deadline_s:g} s has passed, or it was given back, and it is delivered again; "
            "raise ack_deadline_s, or call extend() in time",
            places=places,
        )


def _grave(delivery: Delivery, reason: str) -> Grave:
    return Grave(delivery, delivery.attempt, reason, [Settlement(delivery.claim, "d", [delivery.offset])])


def _settlements(held: Chosen, kind: Kind, delay_s: float) -> list[Settlement]:
    if kind == "e":
        # Others of the claim must not be held for a shorter time than before.
        now = monotonic()
        return [Settlement(claim, "e", (), max(delay_s, claim.expires_at - now)) for claim in held]
    return [Settlement(claim, kind, _offsets(deliveries), delay_s) for claim, deliveries in held.items()]


def _offsets(deliveries: Iterable[Delivery]) -> list[int]:
    return [each.offset for each in deliveries]


def _open_of(chosen: Chosen) -> tuple[Chosen, list[Delivery]]:
    """Those that are in the application's hands, and the others, which are lost."""
    held: Chosen = {}
    lost: list[Delivery] = []
    for claim, deliveries in chosen.items():
        for each in deliveries:
            if claim.standing(each.offset) == "open":
                held.setdefault(claim, []).append(each)
            else:
                lost.append(each)
    return held, lost


def check_unsettled(chosen: Chosen) -> None:
    for claim, deliveries in chosen.items():
        for each in deliveries:
            if claim.standing(each.offset) == "settled":
                raise InvalidArgument(
                    f"offset {each.offset} in partition {each.partition} of {each.topic} is settled already"
                )
        if len({each.offset for each in deliveries}) < len(deliveries):
            raise InvalidArgument("a delivery is given twice")
