"""What one reader of a queue holds: its claims, what of each lies in memory, and what is in the application's hands.

An offset of a claim is first in the buffer, then open (handed out), then settled. Claims that are lost keep nothing:
what was in the buffer is not handed out, and what is open cannot be settled any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, Literal, NamedTuple, TypeVar

from trunkline.records import Batch

T = TypeVar("T")

Kind = Literal["a", "n", "r", "d", "j", "e"]
"""As the server knows them: acked, given back, released, dead-lettered, rejected, extended."""

Standing = Literal["open", "settled", "lost"]

_ORDER = "eajnr"
"""Of settlements in one call: a claim is extended before anything can empty it."""


class Claim:
    """Records of one partition that this reader holds until a time, for the ``attempt``-th attempt.

    ``seq`` is the number of its last settlement, ``left`` how many records it still holds. ``expires_at`` is on the
    reader's clock, and never later than the server's deadline; ``half_s`` before it there is not enough time left to
    hand out its records.
    """

    __slots__ = (
        "_open",
        "_settled",
        "attempt",
        "claim_no",
        "expires_at",
        "half_s",
        "is_lost",
        "left",
        "part_id",
        "partition",
        "seq",
        "token",
    )

    def __init__(
        self, part_id: int, partition: int, claim_no: int, token: int, *, attempt: int, held_from: float, held_s: float
    ) -> None:
        self.part_id = part_id
        self.partition = partition
        self.claim_no = claim_no
        self.token = token
        self.attempt = attempt
        self.seq = 0
        self.left = 0
        self.is_lost = False
        self.expires_at = held_from + held_s
        self.half_s = held_s / 2
        self._open: set[int] = set()
        self._settled: set[int] = set()

    def __repr__(self) -> str:
        return f"<claim {self.claim_no} of partition {self.partition}>"

    def is_fresh(self, now: float) -> bool:
        """Whether it is held for long enough that its records can be handed out."""
        return self.expires_at - self.half_s >= now

    def standing(self, offset: int) -> Standing:
        """What may be done with a record that was handed out."""
        if offset in self._settled:
            return "settled"
        return "lost" if self.is_lost or offset not in self._open else "open"

    def is_held(self, now: float) -> bool:
        """Whether nothing has become of it yet."""
        return not (self.is_lost or self._settled or now >= self.expires_at)

    def hand_out(self, offsets: Iterable[int]) -> None:
        self._open.update(offsets)

    def begin(self, offsets: Iterable[int]) -> None:
        """They are being settled: nobody else may settle them meanwhile."""
        self._settled.update(offsets)
        self._open.difference_update(offsets)

    def begin_one(self, offset: int) -> bool:
        """As ``begin``, for a record that is in the application's hands; False where it is not."""
        if offset not in self._open:
            return False
        self._open.remove(offset)
        self._settled.add(offset)
        return True

    def are_open(self, offsets: Sequence[int]) -> bool:
        """Whether each is in the application's hands, and none is named twice."""
        chosen = set(offsets)
        return len(chosen) == len(offsets) and chosen <= self._open

    def put_back(self, offsets: Iterable[int]) -> None:
        """They were not settled after all, and are in the application's hands as before."""
        self._open.update(offsets)
        self._settled.difference_update(offsets)

    def give_back(self) -> None:
        """In an ordered queue: all that is held goes with a record that is given back."""
        self._open.clear()

    def lose(self, offsets: Iterable[int] = ()) -> None:
        """Nothing of it can be settled any more; nor were these, which were being settled."""
        self.is_lost = True
        self._open.clear()
        self._settled.difference_update(offsets)


class Settlement(NamedTuple):
    """What is to become of some offsets of a claim, ascending. ``delay_s``: of what is given back or extended."""

    claim: Claim
    kind: Kind
    offsets: Sequence[int]
    delay_s: float = 0.0

    @property
    def subject(self) -> tuple[Claim, Kind, float]:
        """What those have in common that can be said as one."""
        return self.claim, self.kind, 0.0 if self.kind == "e" else self.delay_s


def merged(settlements: Iterable[Settlement]) -> list[Settlement]:
    """As few settlements as say the same: one for each claim and kind, and delay. Of several extensions of a claim the
    longest counts."""
    settlements = list(settlements)
    if len(settlements) == 1:
        ((claim, kind, offsets, delay_s),) = settlements
        return settlements if len(offsets) < 2 else [Settlement(claim, kind, sorted(offsets), delay_s)]
    found: dict[tuple[Claim, Kind, float], list[int]] = {}
    acked: dict[Claim, list[int]] = {}
    longest: dict[Claim, float] = {}
    for claim, kind, offsets, seconds in settlements:
        if kind == "a":
            # Nearly all of them, and of few claims.
            if claim in acked:
                acked[claim] += offsets
            else:
                acked[claim] = found[claim, kind, 0.0] = list(offsets)
            continue
        if kind == "e":
            longest[claim] = max(seconds, longest.get(claim, 0.0))
        found.setdefault((claim, kind, 0.0 if kind == "e" else seconds), []).extend(offsets)
    wanted = [
        Settlement(claim, kind, sorted(offsets), longest[claim] if kind == "e" else delay_s)
        for (claim, kind, delay_s), offsets in found.items()
    ]
    if len(wanted) > 1:
        wanted.sort(key=lambda settlement: _ORDER.index(settlement.kind))
    return wanted


def numbered(settlements: Iterable[Settlement]) -> list[int]:
    """The number of each among the settlements of its claim."""
    last: dict[Claim, int] = {}
    numbers = []
    for settlement in settlements:
        claim = settlement.claim
        last[claim] = last.get(claim, claim.seq) + 1
        numbers.append(last[claim])
    return numbers


def ranges_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending offsets as half-open ranges."""
    start = end = None
    for offset in offsets:
        if offset != end:
            if start is not None and end is not None:
                yield start, end
            start = offset
        end = offset + 1
    if start is not None and end is not None:
        yield start, end


def multirange(offsets: Sequence[int]) -> str | None:
    """Ascending offsets as the server reads them; None for all that the claim still holds."""
    if not offsets:
        return None
    ranges = ",".join(f"[{start},{end})" for start, end in ranges_of(offsets))
    return f"{{{ranges}}}"


class Piece(Generic[T]):
    """Records of one claim that stand together, ``[first, end)``; ``records`` is None until they have been read."""

    __slots__ = ("claim", "end", "first", "records")

    def __init__(self, claim: Claim, first: int, end: int, records: Iterator[T] | None = None) -> None:
        self.claim = claim
        self.first = first
        self.end = end
        self.records = records

    def __len__(self) -> int:
        return self.end - self.first


class Buffer(Generic[T]):
    """What was claimed and is not handed out yet. ``make`` turns a range of a batch, for a claim, into what is handed
    out."""

    def __init__(self, make: Callable[[Batch, int, int, Claim], Iterator[T]]) -> None:
        self._make = make
        self._pieces: deque[Piece[T]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._pieces)) if self._pieces else 0

    def add(self, claim: Claim, ranges: Iterable[tuple[int, int]], batch: Batch | None) -> None:
        """Keep ranges of a claim, which lie in the batch where it has come along."""
        for start, end in ranges:
            self._pieces.append(self._piece(claim, start, end, batch))
            claim.left += end - start

    def _piece(self, claim: Claim, start: int, end: int, batch: Batch | None) -> Piece[T]:
        return Piece(claim, start, end, None if batch is None else self._make(batch, start, end, claim))

    def unread_run(self, piece: Piece[T]) -> list[Piece[T]]:
        """A piece that is to be read, and those behind it that can be read with it; none where it was read, or has
        gone, meanwhile."""
        run: list[Piece[T]] = []
        if piece.records is None and piece in self._pieces:
            for each in islice(self._pieces, self._pieces.index(piece), None):
                if each.records is not None or each.claim.partition != piece.claim.partition:
                    break
                if run and each.first != run[-1].end:
                    break
                run.append(each)
        return run

    def fill(self, run: Sequence[Piece[T]], batches: Sequence[Batch]) -> None:
        """Put what was read into pieces that had no records: ``batches``, one after the other, begin with the first
        piece, or before it; where they begin later, or there are none, retention has taken what is missing. Pieces
        behind the last batch are read later."""
        read_to = batches[-1].end if batches else run[-1].end
        for piece in run:
            if piece.first >= read_to or piece not in self._pieces:
                continue
            filled: list[Piece[T]] = []
            for batch in batches:
                start, end = max(batch.first_offset, piece.first), min(batch.end, piece.end)
                if start < end:
                    filled.append(self._piece(piece.claim, start, end, batch))
            if read_to < piece.end:
                filled.append(Piece(piece.claim, read_to, piece.end))
            at = self._pieces.index(piece)
            self._pieces.remove(piece)
            for each in reversed(filled):
                self._pieces.insert(at, each)

    def next_pieces(self, records_max: int) -> list[Piece[T]]:
        """The pieces that the next records are in. What belongs to claims that are lost is dropped."""
        if any(piece.claim.is_lost for piece in self._pieces):
            self._pieces = deque(piece for piece in self._pieces if not piece.claim.is_lost)
        found: list[Piece[T]] = []
        for piece in self._pieces:
            if records_max <= 0:
                break
            found.append(piece)
            records_max -= len(piece)
        return found

    def take_fresh(self, records_max: int, now: float) -> list[T]:
        """As ``take``, where the next records have been read and are held for long enough; otherwise none."""
        if not self._pieces:
            return []
        piece = self._pieces[0]
        claim = piece.claim
        if piece.records is None or claim.is_lost or claim.expires_at - claim.half_s < now:
            return []
        if records_max == 1:
            claim.hand_out((piece.first,))
            piece.first += 1
            if piece.first == piece.end:
                self._pieces.popleft()
            return [next(piece.records)]
        if len(piece) < records_max and not all(
            each.records is not None and each.claim.is_fresh(now) for each in self.next_pieces(records_max)
        ):
            return []
        return self.take(records_max)

    def take(self, records_max: int) -> list[T]:
        """Hand out the next records, as far as they have been read."""
        taken: list[T] = []
        for piece in self.next_pieces(records_max):
            if piece.records is None:
                break
            got = list(islice(piece.records, min(records_max - len(taken), len(piece))))
            piece.claim.hand_out(range(piece.first, piece.first + len(got)))
            piece.first += len(got)
            taken += got
            if not piece:
                self._pieces.popleft()
        return taken

    def give_back(self, claim: Claim) -> None:
        """Forget what there is of a claim."""
        self._pieces = deque(piece for piece in self._pieces if piece.claim is not claim)

    def release(self) -> list[Settlement]:
        """Empty it: what has to be said to the server so that others get it at once."""
        held: dict[Claim, list[int]] = {}
        for piece in self._pieces:
            if not piece.claim.is_lost:
                held.setdefault(piece.claim, []).extend(range(piece.first, piece.end))
        self._pieces.clear()
        return [Settlement(claim, "r", sorted(offsets)) for claim, offsets in held.items()]
