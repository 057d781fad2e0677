"""How ranges are cut into tasks, into micro-batches and into batches: nothing is lost or doubled."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.spark.ranges import Place, Range, gathered, limited, split
from trunkline.spark.staging import RECORD_ALONE_BYTES, cut

lengths = st.integers(0, 40) | st.integers(0, 10**12)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[Range]:
    found = []
    for i, length in enumerate(draw(st.lists(lengths, max_size=12))):
        start = draw(st.integers(1, 10**9))
        found.append(Range(f"t{i % 3}", i % 3, i // 3, start, start + length))
    return found


@settings(deadline=None)
@given(some_ranges(), st.none() | st.integers(1, 60), st.none() | st.integers(1, 50))
def test_pieces_are_exactly_the_records_of_the_ranges(
    ranges: list[Range], min_partitions: int | None, max_records: int | None
) -> None:
    if max_records is not None:
        ranges = [r for r in ranges if len(r) <= 5_000]
    pieces = split(ranges, min_partitions, max_records)
    left = iter(pieces)
    for whole in (r for r in ranges if len(r)):
        here = whole.start
        while here < whole.end:
            piece = next(left)
            assert (piece.topic, piece.topic_id, piece.partition) == (whole.topic, whole.topic_id, whole.partition)
            assert piece.start == here < piece.end <= whole.end
            here = piece.end
    assert list(left) == []


@settings(deadline=None)
@given(some_ranges(), st.integers(0, 60))
def test_small_pieces_are_read_by_one_task_and_each_is_read_once(ranges: list[Range], most: int) -> None:
    pieces = [r for r in ranges if len(r)]
    tasks = gathered(pieces, most)
    assert [piece for task in tasks for piece in task] == pieces
    assert all(task for task in tasks)
    assert all(len(task) == 1 or sum(map(len, task)) <= most for task in tasks)
    for one, other in pairwise(tasks):
        assert sum(map(len, one)) + len(other[0]) > most, "they could have been one task"


@settings(deadline=None)
@given(some_ranges(), st.integers(1, 60), st.none() | st.integers(1, 50))
def test_there_are_as_many_pieces_as_wanted_and_none_is_too_large(
    ranges: list[Range], min_partitions: int, max_records: int | None
) -> None:
    if max_records is not None:
        ranges = [r for r in ranges if len(r) <= 5_000]
    pieces = split(ranges, min_partitions, max_records)
    assert len(pieces) >= min(min_partitions, sum(map(len, ranges)))
    if max_records is not None:
        assert all(len(piece) <= max_records for piece in pieces)
    else:
        # No more than wanted, and no piece could be cut again without passing another by.
        assert len(pieces) == max(min(min_partitions, sum(map(len, ranges))), sum(1 for r in ranges if len(r)))
    assert split(ranges, min_partitions, max_records) == pieces


@st.composite
def some_waiting(draw: st.DrawFn) -> tuple[dict[Place, int], dict[Place, int]]:
    places = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), unique=True, max_size=12))
    starts = {place: draw(st.integers(1, 10**9)) for place in places}
    return starts, {place: start + draw(lengths) for place, start in starts.items()}


@settings(deadline=None)
@given(some_waiting(), st.none() | st.integers(1, 100) | st.integers(1, 10**13))
def test_a_micro_batch_has_as_many_records_as_allowed(
    waiting: tuple[dict[Place, int], dict[Place, int]], most: int | None
) -> None:
    starts, ends = waiting
    found = limited(starts, ends, most)
    total = sum(ends[place] - starts[place] for place in ends)
    assert found.keys() == ends.keys()
    assert all(starts[place] <= found[place] <= ends[place] for place in ends)
    taken = sum(found[place] - starts[place] for place in ends)
    assert taken == (total if most is None else min(total, most))


@settings(deadline=None)
@given(some_waiting(), st.integers(12, 1000))
def test_every_partition_gets_on_where_the_limit_allows_it(
    waiting: tuple[dict[Place, int], dict[Place, int]], most: int
) -> None:
    starts, ends = waiting
    found = limited(starts, ends, most)
    assert all(found[place] > starts[place] for place in ends if ends[place] > starts[place])


@settings(deadline=None)
@given(st.integers(2, 12), st.integers(1, 11))
def test_no_partition_starves_where_there_are_more_than_the_limit(count: int, most: int) -> None:
    """The first has waited for long, and all others get a record before each micro-batch."""
    most = min(most, count - 1)
    here = {("a", i): 1 for i in range(count)}
    until = {("a", i): 51 if i == 0 else 1 for i in range(count)}
    for _ in range(50):
        until = {place: end + (place[1] > 0) for place, end in until.items()}
        here = limited(here, until, most)
        if here["a", 0] == 51:
            break
        assert here["a", 0] > 1


sizes = st.lists(st.integers(0, 200) | st.integers(RECORD_ALONE_BYTES - 2, RECORD_ALONE_BYTES + 5), max_size=60)


@settings(deadline=None)
@given(sizes, st.integers(1, 20), st.sampled_from([1, 150, 1000, 100_000, 10**6]))
def test_batches_are_cut_within_their_limits(lengths: list[int], records_max: int, bytes_max: int) -> None:
    pieces = list(cut(np.array(lengths, np.int64), records_max, bytes_max))
    edges = [0, *(end for _, end in pieces)]
    assert pieces == list(pairwise(edges))
    assert edges[-1] == len(lengths)
    for start, end in pieces:
        alone = end - start == 1
        assert start < end
        assert end - start <= records_max
        assert alone or sum(lengths[start:end]) <= bytes_max
        assert alone or max(lengths[start:end]) <= RECORD_ALONE_BYTES
    # As few as can be: what follows a piece would not have fitted into it.
    for (start, end), (_, _) in pairwise(pieces):
        fits = sum(lengths[start : end + 1]) <= bytes_max and end + 1 - start <= records_max
        assert not (fits and max(lengths[start : end + 1]) <= RECORD_ALONE_BYTES)
