"""Who of a group's members should read which partition. Everybody who sees the same comes to the same answer.

Sticky: what a member reads it keeps, unless another one that may read it too has at least two fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def balanced(
    members: Mapping[int, Collection[int]],
    cursors: Mapping[int, int],
    owners: Mapping[int, int],
    barred: Mapping[int, Collection[int]] | None = None,
) -> dict[int, int]:
    """Cursor to member.

    ``members`` has the topics that each member reads, ``cursors`` the topic of each cursor, ``owners`` who holds which
    cursor now, ``barred`` the cursors that a member does not take although it reads their topic. A cursor that nobody
    takes is left out.
    """
    readers = _readers(members, cursors, barred or {})
    given = {
        cursor: owner for cursor, owner in sorted(owners.items()) if cursor in cursors and owner in readers[cursor]
    }
    load = dict.fromkeys(members, 0)
    for owner in given.values():
        load[owner] += 1
    for cursor in sorted(cursors):
        able = readers[cursor]
        if cursor not in given and able:
            given[cursor] = _idlest(able, load)
            load[given[cursor]] += 1
    _level(given, readers, load)
    return given


def _readers(
    members: Mapping[int, Collection[int]], cursors: Mapping[int, int], barred: Mapping[int, Collection[int]]
) -> dict[int, Sequence[int]]:
    """Who may have each cursor."""
    of_topic: dict[int, list[int]] = {}
    for member in sorted(members):
        for topic in set(members[member]):
            of_topic.setdefault(topic, []).append(member)
    able: dict[int, Sequence[int]] = {cursor: of_topic.get(topic, ()) for cursor, topic in cursors.items()}
    if barred:
        for cursor, every in able.items():
            able[cursor] = [member for member in every if cursor not in barred.get(member, ())]
    return able


def _level(given: dict[int, int], readers: Mapping[int, Sequence[int]], load: dict[int, int]) -> None:
    """Move cursors, as few as it takes, until no move would bring two members closer together.

    Each move lowers the sum of the squares of the loads, so it ends. With members that read different topics a chain
    of moves may be needed; each link of it is such a move or none is made.
    """
    moved = True
    while moved:
        moved = False
        for cursor in sorted(given, key=lambda each: (-load[given[each]], -each)):
            taker = _idlest(readers[cursor], load)
            if load[taker] <= load[given[cursor]] - 2:
                load[given[cursor]] -= 1
                load[taker] += 1
                given[cursor] = taker
                moved = True
                break


def _idlest(able: Collection[int], load: Mapping[int, int]) -> int:
    return min(able, key=lambda member: (load[member], member))
