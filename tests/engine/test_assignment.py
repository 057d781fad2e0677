"""Who reads which partition: shared evenly, moved as little as possible, the same for everybody who looks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.assignment import balanced

MEMBERS = st.dictionaries(
    st.integers(1, 9), st.lists(st.integers(1, 3), min_size=1, unique=True).map(tuple), max_size=6
)
CURSORS = st.dictionaries(st.integers(1, 40), st.integers(1, 3), max_size=24)


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[int, tuple[int, ...]], dict[int, int], dict[int, int]]:
    members, cursors = draw(MEMBERS), draw(CURSORS)
    owners = {cursor: draw(st.integers(1, 12)) for cursor in cursors if draw(st.booleans())}
    return members, cursors, owners


def loads(members: dict[int, tuple[int, ...]], given_to: dict[int, int]) -> dict[int, int]:
    return {member: list(given_to.values()).count(member) for member in members}


@given(groups())
def test_every_partition_that_somebody_reads_goes_to_one_who_reads_it(
    group: tuple[dict[int, tuple[int, ...]], dict[int, int], dict[int, int]],
) -> None:
    members, cursors, owners = group
    target = balanced(members, cursors, owners)
    read = {topic for topics in members.values() for topic in topics}
    assert target.keys() == {cursor for cursor, topic in cursors.items() if topic in read}
    assert all(cursors[cursor] in members[member] for cursor, member in target.items())


@given(groups())
def test_no_single_move_would_make_it_more_even(
    group: tuple[dict[int, tuple[int, ...]], dict[int, int], dict[int, int]],
) -> None:
    members, cursors, owners = group
    target = balanced(members, cursors, owners)
    load = loads(members, target)
    for cursor, member in target.items():
        for other, topics in members.items():
            if cursors[cursor] in topics:
                assert load[other] >= load[member] - 1


@given(groups())
def test_who_looks_again_changes_nothing(
    group: tuple[dict[int, tuple[int, ...]], dict[int, int], dict[int, int]],
) -> None:
    members, cursors, owners = group
    target = balanced(members, cursors, owners)
    assert balanced(members, cursors, target) == target
    assert balanced(dict(reversed(members.items())), dict(reversed(cursors.items())), owners) == target


@given(st.integers(1, 6), st.integers(0, 24))
def test_a_member_that_joins_moves_only_what_it_gets(size: int, partitions: int) -> None:
    cursors = dict.fromkeys(range(partitions), 1)
    before = balanced(dict.fromkeys(range(size), (1,)), cursors, {})
    after = balanced(dict.fromkeys(range(size + 1), (1,)), cursors, before)
    moved = [cursor for cursor in cursors if before[cursor] != after[cursor]]
    assert all(after[cursor] == size for cursor in moved)
    assert len(moved) == partitions // (size + 1)


@given(st.integers(1, 6), st.integers(0, 24))
def test_a_member_that_leaves_moves_only_what_it_had(size: int, partitions: int) -> None:
    cursors = dict.fromkeys(range(partitions), 1)
    before = balanced(dict.fromkeys(range(size + 1), (1,)), cursors, {})
    after = balanced(dict.fromkeys(range(size), (1,)), cursors, before)
    assert {cursor for cursor in cursors if before[cursor] != after[cursor]} == {
        cursor for cursor in cursors if before[cursor] == size
    }
