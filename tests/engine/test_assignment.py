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


@given(groups(), st.dictionaries(st.integers(1, 9), st.sets(st.integers(1, 40))))
def test_nobody_gets_what_it_is_barred_from_and_who_looks_again_changes_nothing(
    group: tuple[dict[int, tuple[int, ...]], dict[int, int], dict[int, int]], barred: dict[int, set[int]]
) -> None:
    members, cursors, owners = group
    target = balanced(members, cursors, owners, barred)
    assert all(cursor not in barred.get(member, ()) for cursor, member in target.items())
    able = {
        cursor: [each for each, topics in members.items() if topic in topics and cursor not in barred.get(each, ())]
        for cursor, topic in cursors.items()
    }
    assert target.keys() == {cursor for cursor, readers in able.items() if readers}
    load = loads(members, target)
    assert all(load[other] >= load[member] - 1 for cursor, member in target.items() for other in able[cursor])
    assert balanced(members, cursors, target, barred) == target


def test_a_member_with_one_partition_gets_it_from_one_that_has_several() -> None:
    before = {1: 1, 2: 1, 3: 1}
    assert balanced({1: (7,), 2: (7,)}, {1: 7, 2: 7, 3: 7}, before, {2: {2, 3}}) == {1: 2, 2: 1, 3: 1}
