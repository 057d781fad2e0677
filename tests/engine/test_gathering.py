"""Who shares a batch."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.engine.gathering import GatherLimits, Line


@dataclass(frozen=True)
class Parcel:
    name: str
    size: int = 1


def line(*entries: Parcel, batch_max: int = 3, batch_bytes_max: int = 10, buffer_bytes_max: int = 20) -> Line[Parcel]:
    made: Line[Parcel] = Line(GatherLimits(batch_max, batch_bytes_max, buffer_bytes_max))
    for entry in entries:
        made.join(entry)
    return made


def test_a_batch_is_what_waits_in_order_up_to_the_count() -> None:
    waiting = line(*(Parcel(name) for name in "abcde"))
    assert [entry.name for entry in waiting.next_batch()] == ["a", "b", "c"]
    assert [entry.name for entry in waiting.next_batch()] == ["d", "e"]
    assert waiting.bytes == 0


def test_a_batch_ends_before_it_is_too_large_and_one_that_is_too_large_goes_alone() -> None:
    waiting = line(Parcel("a", 6), Parcel("b", 4), Parcel("c", 11), Parcel("d", 1))
    assert [entry.name for entry in waiting.next_batch()] == ["a", "b"]
    assert [entry.name for entry in waiting.next_batch()] == ["c"]
    assert [entry.name for entry in waiting.next_batch()] == ["d"]


def test_who_leaves_takes_its_bytes_along_and_who_has_gone_cannot_leave() -> None:
    first, second = Parcel("a", 3), Parcel("b", 4)
    waiting = line(first, second)
    assert waiting.leave(first)
    assert not waiting.leave(first)
    assert waiting.bytes == 4
    waiting.next_batch()
    assert not waiting.leave(second)


def test_there_is_room_up_to_the_buffer_and_always_for_the_first() -> None:
    assert line().has_room(1_000)
    assert line(Parcel("a", 19)).has_room(1)
    assert not line(Parcel("a", 19)).has_room(2)


def test_it_is_full_by_count_or_by_bytes() -> None:
    assert not line(Parcel("a"), Parcel("b")).is_full()
    assert line(Parcel("a"), Parcel("b"), Parcel("c")).is_full()
    assert line(Parcel("a", 10)).is_full()
