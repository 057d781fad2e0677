"""The checker is shown every violation that it knows, and histories without any: silence alone would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.history import History, Outcome, OutOfRange, Partition, Place, Publish, Read, Recorder, Seen, Sent
from tests.checker.invariants import CHECKS, assert_clean, violations

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seen(offset: int, payload: bytes, *, at_s: float = 0.0) -> Seen:
    return Seen(offset, payload, NOON + timedelta(seconds=at_s))


def log(*payloads: bytes, start: int = 1) -> Partition:
    records = tuple(seen(offset, payload, at_s=offset) for offset, payload in enumerate(payloads, start))
    return Partition(start, start + len(payloads), records)


def publish(
    *payloads: bytes,
    at: Sequence[Place] = (),
    when: tuple[int, int] = (1, 2),
    outcome: Outcome = "acknowledged",
    key: bytes | None = None,
) -> Publish:
    return Publish("w", tuple(Sent(payload, key) for payload in payloads), *when, outcome, tuple(at))


def read(
    *records: Seen, start: int = 1, when: tuple[int, int] = (3, 4), cut: bool = False, cursor: int | None = None
) -> Read:
    return Read("r", 0, start, *when, records, cut, cursor)


A, B = publish(b"a", at=[(0, 1)]), publish(b"b", at=[(0, 2)], when=(3, 4))

WRONG: dict[str, list[History]] = {
    "lost-write": [
        History([A], {0: log()}),
        History([A, B], {0: log(b"a")}),
        History([A], {}),
        History([publish(b"a", b"b", at=[(0, 1)])], {0: log(b"a")}),
    ],
    "inconsistent-offsets": [
        History([A], {0: log(b"x")}),
        History([A, read(seen(1, b"x"))], {0: log(b"a")}),
        History([read(seen(1, b"x")), read(seen(1, b"y"))], {}),
    ],
    "duplicate": [
        History([A], {0: log(b"a", b"a")}),
        History([A, read(seen(1, b"a")), read(seen(2, b"a"), start=2)], {0: log(b"a")}),
        History([], {0: log(b"a"), 1: log(b"a")}),
        History([], {0: Partition(1, 2, (seen(1, b"a"), seen(1, b"a")))}),
    ],
    "gap": [
        History([], {0: Partition(1, 4, (seen(1, b"a"), seen(3, b"c")))}),
        History([], {0: Partition(1, 3, (seen(1, b"a"),))}),
        History([], {0: Partition(3, 5, (seen(4, b"a"),))}),
        History([read(seen(1, b"a"), seen(3, b"c"))], {}),
        History([read(seen(2, b"b"), start=1)], {}),
    ],
    "aborted-read": [
        History([publish(b"a", outcome="failed"), read(seen(1, b"a"))], {0: log()}),
        History([publish(b"a", outcome="failed")], {0: log(b"a")}),
        History([], {0: log(b"nobody's")}),
    ],
    "poll-skip": [
        History([read(seen(1, b"a")), read(seen(3, b"c"), start=2)], {0: log(b"a", b"b", b"c")}),
        History([read(seen(2, b"b"), start=1)], {0: log(b"a", b"b")}),
        History([read(cursor=3)], {0: log(b"a", b"b")}),
    ],
    "non-monotonic-poll": [
        History([read(seen(1, b"a"), seen(2, b"b")), read(seen(2, b"b"), start=3)], {}),
        History([read(seen(2, b"b"), seen(1, b"a"))], {}),
    ],
    "key-order": [
        History([publish(b"a", at=[(0, 2)], key=b"k"), publish(b"b", at=[(0, 1)], when=(3, 4), key=b"k")], {}),
        History([publish(b"a", at=[(0, 1)], key=b"k"), publish(b"b", at=[(1, 1)], key=b"k")], {}),
    ],
    "torn-transaction": [
        History([publish(b"a", b"b", outcome="unknown")], {0: log(b"a"), 1: log()}),
        History([publish(b"a", b"b", at=[(0, 1), (0, 2)])], {0: log(b"a", b"x", b"b")}),
        History([publish(b"a", b"b", at=[(0, 1), (0, 2)])], {0: log(b"b", b"a")}),
    ],
    "append-time-order": [
        History([], {0: Partition(1, 3, (seen(1, b"a", at_s=5), seen(2, b"b", at_s=4)))}),
        History([read(seen(1, b"a", at_s=5), seen(2, b"b", at_s=4))], {}),
    ],
    "short-read": [
        History([A, read(when=(3, 4))], {0: log(b"a")}),
        History([A, B, read(seen(1, b"a"), when=(5, 6))], {0: log(b"a", b"b")}),
        History([read(seen(1, b"a"), when=(1, 2)), read(when=(3, 4))], {0: log(b"a")}),
        # One transaction in two partitions: who saw it in one finds it in the other.
        History(
            [
                publish(b"a", b"b", at=[(0, 1), (1, 1)], when=(1, 9)),
                Read("r", 1, 1, 2, 3, (seen(1, b"b"),)),
                read(when=(4, 5)),
            ],
            {0: log(b"a"), 1: log(b"b")},
        ),
        History([A, OutOfRange("r", 0, 1, 3, 4, 1, 1)], {0: log(b"a")}),
        History([A, OutOfRange("r", 0, 1, 3, 4, 1, 2)], {0: log(b"a")}),
    ],
}

FINE: dict[str, History] = {
    "nothing happened": History(),
    "published and read": History(
        [A, B, read(seen(1, b"a", at_s=1), seen(2, b"b", at_s=2), when=(5, 6))], {0: log(b"a", b"b")}
    ),
    "a read that began before the acknowledgement": History([A, read(when=(1, 3))], {0: log(b"a")}),
    "a read that ended at its limit": History([A, B, read(seen(1, b"a"), when=(5, 6), cut=True)], {0: log(b"a", b"b")}),
    "an unknown outcome that was written": History([publish(b"a", outcome="unknown")], {0: log(b"a")}),
    "an unknown outcome that was not": History([publish(b"a", outcome="unknown")], {0: log()}),
    "a rollback whose offset was given again": History(
        [publish(b"x", outcome="failed"), A, read(seen(1, b"a"), when=(5, 6))], {0: log(b"a")}
    ),
    "retention took an acknowledged record": History(
        [A, B, OutOfRange("r", 0, 1, 5, 6, 2, 3)], {0: log(b"b", start=2)}
    ),
    "a reader that was sent to the start": History(
        [A, B, OutOfRange("r", 0, 1, 5, 6, 2, 3), read(seen(2, b"b"), start=2, when=(7, 8))], {0: log(b"b", start=2)}
    ),
    "keys published at the same time in either order": History(
        [publish(b"a", at=[(0, 2)], key=b"k"), publish(b"b", at=[(0, 1)], key=b"k")],
        {0: log(b"b", b"a")},
    ),
    "one transaction in two partitions": History(
        [publish(b"a", b"b", b"c", at=[(0, 1), (1, 1), (0, 2)])], {0: log(b"a", b"c"), 1: log(b"b")}
    ),
}


@pytest.mark.parametrize(
    ("kind", "history"), [(kind, history) for kind, histories in WRONG.items() for history in histories]
)
def test_every_violation_is_caught_by_its_own_check(kind: str, history: History) -> None:
    assert {violation.kind for violation in violations(history, [CHECKS[kind]])} == {kind}
    with pytest.raises(AssertionError, match=kind):
        assert_clean(history)


def test_every_check_has_a_history_that_violates_it() -> None:
    assert set(WRONG) == set(CHECKS)


@pytest.mark.parametrize("history", FINE.values(), ids=FINE.keys())
def test_a_history_without_fault_passes(history: History) -> None:
    assert violations(history) == []


@st.composite
def runs(draw: st.DrawFn) -> tuple[History, list[bytes]]:
    """One writer and two readers of one partition, as a perfect log would have answered them."""
    recorder = Recorder()
    payloads: list[bytes] = []
    cursors = {"r1": 1, "r2": 1}
    for number in range(draw(st.integers(4, 20))):
        match draw(st.sampled_from(["publish", "publish", "fail", "r1", "r2"])):
            case "publish":
                payload = b"%d" % number
                payloads.append(payload)
                recorder.published("w", [Sent(payload, b"k")], recorder.tick(), [(0, len(payloads))])
            case "fail":
                recorder.failed("w", [Sent(b"%d" % number)], recorder.tick())
            case reader:
                start = cursors[reader]
                got = [seen(offset, payloads[offset - 1], at_s=offset) for offset in range(start, len(payloads) + 1)]
                recorder.read(reader, 0, start, recorder.tick(), got)
                cursors[reader] = len(payloads) + 1
    return recorder.finish({0: log(*payloads)}), payloads


@given(runs())
def test_whatever_a_perfect_log_answers_passes(run: tuple[History, list[bytes]]) -> None:
    assert violations(run[0]) == []


def _without(partition: Partition, index: int) -> Partition:
    return Partition(partition.start, partition.end, partition.records[:index] + partition.records[index + 1 :])


def _closed_up(partition: Partition, index: int) -> Partition:
    kept = [record.payload for record in _without(partition, index).records]
    return log(*kept)


def _written_twice(partition: Partition, index: int) -> Partition:
    payloads = [record.payload for record in partition.records]
    return log(*payloads, payloads[index])


def _swapped(partition: Partition, index: int) -> Partition:
    payloads = [record.payload for record in partition.records]
    payloads[0], payloads[-1] = payloads[-1], payloads[0]
    return log(*payloads) if len(set(payloads)) > 1 else _without(partition, index)


@pytest.mark.parametrize("damage", [_without, _closed_up, _written_twice, _swapped])
@given(run=runs(), data=st.data())
def test_a_perfect_log_that_is_damaged_afterwards_is_caught(
    damage: Callable[[Partition, int], Partition], run: tuple[History, list[bytes]], data: st.DataObject
) -> None:
    history, payloads = run
    if payloads:
        index = data.draw(st.integers(0, len(payloads) - 1))
        damaged = History(history.events, {0: damage(history.final[0], index)})
        assert violations(damaged)


def test_the_recorder_gives_every_operation_its_moments() -> None:
    recorder = Recorder()
    begun = recorder.tick()
    publish_event = recorder.published("w", [Sent(b"a")], begun, [(0, 1)])
    recorder.unknown("w", [Sent(b"b")], recorder.tick())
    recorder.failed("w", [Sent(b"c")], recorder.tick())
    recorder.crashed("server")
    recorder.read("r", 0, 1, recorder.tick(), [seen(1, b"a")])
    recorder.out_of_range("r", 0, 9, recorder.tick(), (1, 2))
    assert publish_event.invoked < publish_event.ended
    assert recorder.history.summary() == (
        "3 publishes (1 acknowledged, 1 failed, 1 unknown), 1 reads, 1 out of range, 1 crashes, 0 records in the log"
    )
