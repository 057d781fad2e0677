"""The arithmetic of the benchmarks of groups."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from benchmarks.group_jobs import Call, Consumed, Published, Read
from benchmarks.latency import Sample, percentile, percentiles
from benchmarks.payloads import Tally
from benchmarks.processor import Busy, server_processor_s
from benchmarks.scenarios.groups.fanout import Measured, finding
from benchmarks.scenarios.groups.saturation import drain
from benchmarks.scenarios.groups.wake import SLICE_CALLS, medians
from benchmarks.stamps import STAMP_BYTES, moments, stamped
from benchmarks.workload import Driven, Workload, lag_max, pace, sustained, within

LOAD = Workload(
    partitions=4, writers=10, groups=2, write_records=100, read_records=200, rate=5_000, duration_s=2.0, readers_each=4
)


def driven() -> Driven:
    """A writer with two batches; one group that reads both at once, and one that never reads the second."""
    published = Published(100, 10.0, [Call(10.0, 10.0, 10.1), Call(10.2, 10.3, 10.4)])
    quick = Consumed("quick", [Read(10.4, 10.5, 10.6, 200)])
    slow = Consumed("slow", [Read(11.0, 12.4, 12.5, 100)])
    return Driven(LOAD, [published], [quick, slow], 0.5)


def test_a_stamp_is_read_back_from_each_payload() -> None:
    payloads = stamped([b"a", b"bc"], 1.25) + stamped([b"d"], 2.5)
    assert moments(payloads) == [(1.25, 2), (2.5, 1)]
    assert [payload[STAMP_BYTES:] for payload in payloads] == [b"a", b"bc", b"d"]


def test_a_tally_knows_every_record_but_neither_their_order_nor_their_stamps() -> None:
    bodies = [b"a", b"bc", b""]
    seen = Tally().after(stamped(bodies[:2], 1.0), skip=STAMP_BYTES).after(stamped(bodies[2:], 2.0), skip=STAMP_BYTES)
    assert seen == Tally().after(bodies[::-1]) == Tally().after(bodies[:1]) + Tally().after(bodies[1:])
    assert seen != Tally().after([b"b", b"bc", b""])
    assert seen != Tally().after([b"a", b"bc", b"", b""])


def test_a_percentile_counts_records_and_is_a_time_that_was_seen() -> None:
    samples = [Sample(0.003, 1), Sample(0.001, 98), Sample(0.002, 1)]
    assert percentiles(samples) == {50: 1.0, 95: 1.0, 99: 2.0}
    assert percentile(samples, 100) == 3.0
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 50)


def test_writers_take_turns_at_equal_distances_and_keep_the_rate() -> None:
    paces = [pace(LOAD, number) for number in range(LOAD.writers)]
    assert [each.interval_s for each in paces if each is not None] == pytest.approx([0.2] * 10)
    assert [each.phase_s for each in paces if each is not None] == pytest.approx([0.02 * n for n in range(10)])


def test_a_rate_is_sustained_when_the_last_record_comes_in_time() -> None:
    assert sustained([(10.5, 100), (11.0, 100)], start=10.0, duration_s=2.0) == 100.0
    assert sustained([(10.5, 100), (14.0, 100)], start=10.0, duration_s=2.0) == 50.0


def test_within_the_time_counts_what_came_in_it() -> None:
    assert within([(9.5, 100), (10.5, 100), (12.5, 100)], start=10.0, duration_s=2.0) == 50.0


def test_lag_is_what_was_acknowledged_and_not_yet_in_the_slowest_groups_hands() -> None:
    assert lag_max(driven()) == 200


def test_what_is_read_after_the_last_write_is_drained() -> None:
    assert drain(driven()) == pytest.approx(300 / 2.0)


def test_a_slice_has_a_median_of_its_own() -> None:
    assert medians([1.0] * SLICE_CALLS + [2.0] * SLICE_CALLS) == [1.0, 2.0]


def test_groups_are_judged_only_while_the_machine_has_room() -> None:
    alone = [Measured(100.0, 0.5)]
    assert finding("fanout.follow-2", [Measured(90.0, 0.8)], alone).holds
    assert not finding("fanout.follow-8", [Measured(40.0, 0.99)], alone).holds
    assert finding("fanout.follow-2", [Measured(90.0, None)], alone).ratio == 0.9


def test_the_machine_is_as_busy_as_its_processors_were_not_idle(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 …\n")
    assert Busy.now(tmp_path) == Busy(100, 80)
    assert Busy(100, 80).share(Busy(200, 105)) == 0.75
    assert Busy.now(tmp_path / "none") is None


def test_processor_time_of_the_server_grows_with_what_others_ask_of_it(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as asking, psycopg.connect(db_url, autocommit=True) as other:
        before = server_processor_s(asking)
        if before is None:
            pytest.skip("this system tells nothing of processor time")
        other.execute("select count(*) from generate_series(1, 200000)")
        after = server_processor_s(asking)
    assert after is not None
    assert after > before


def test_processor_time_of_a_server_elsewhere_is_not_known(db_url: str, tmp_path: Path) -> None:
    with psycopg.connect(db_url) as connection:
        assert server_processor_s(connection, proc=tmp_path) is None
