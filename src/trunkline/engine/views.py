"""A group as one of its processes sees it at a moment."""

from __future__ import annotations

from typing import Any

import msgspec


class SeenCursor(msgspec.Struct, frozen=True):
    """A cursor of the group; ``owner`` is the living member that holds it, None where it is free."""

    cursor_id: int
    topic_id: int
    partition: int
    epoch: int
    owner: int | None


class GroupView(msgspec.Struct, frozen=True):
    """Who is alive and reads which topics, who is dead, and who holds what.

    ``is_whole`` is False where a topic has partitions in which the group has no cursor yet. ``limits`` has those
    members that take certain partitions at most.
    """

    group_id: int
    members: dict[int, tuple[int, ...]]
    dead: tuple[int, ...]
    cursors: tuple[SeenCursor, ...]
    is_whole: bool
    limits: dict[int, tuple[int, ...]] = {}

    def held_by(self, member: int) -> list[int]:
        """The cursors that a member holds."""
        return [cursor.cursor_id for cursor in self.cursors if cursor.owner == member]

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> GroupView:
        """From a row of group_view."""
        group_id, member_ids, member_topics, dead, cursor_ids, topic_ids, partitions, epochs, owners, is_whole = row
        members: dict[int, tuple[int, ...]] = {}
        limits: dict[int, tuple[int, ...]] = {}
        for member, text in zip(member_ids, member_topics, strict=True):
            topics, at, limit = text.partition("@")
            members[member] = tuple(map(int, topics.split(",")))
            if at:
                limits[member] = tuple(map(int, limit.split(",")))
        seen = zip(cursor_ids, topic_ids, partitions, epochs, owners, strict=True)
        cursors = tuple(SeenCursor(*each) for each in seen)
        return cls(group_id, members, tuple(dead), cursors, is_whole, limits)

    def barred(self) -> dict[int, set[int]]:
        """For each member with a limit the cursors that it does not take."""
        return {
            member: {cursor.cursor_id for cursor in self.cursors if cursor.partition not in limit}
            for member, limit in self.limits.items()
        }
