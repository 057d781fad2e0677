# Generated from src/trunkline/client/aio/member.py by tools/twins.py (make fix). Change the source, not this file.
"""One member of a group: it holds partitions, gives up what others should have, takes what is free, commits.

Every member looks at the group for itself and comes to the same plan (engine/assignment.py). It never takes what
another living member holds: a partition is given back first, at the place that was committed, then taken. Whatever
goes wrong in between, the epoch of the cursor decides who may commit.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from trunkline.client import protocol
from trunkline.client.arrays import EncodedArray, integer_array, offset_array
from trunkline.client.sync.connection import Row
from trunkline.client.sync.doorbell import Ringer
from trunkline.client.sync.server import Server
from trunkline.client.sync.topics import Topics
from trunkline.client.sync.watch import Seat, Watch
from trunkline.engine.assignment import balanced
from trunkline.engine.holdings import Holding
from trunkline.engine.views import GroupView, SeenCursor
from trunkline.errors import Fenced, NotFound, OutcomeUnknown
from trunkline.records import Topic

logger = logging.getLogger("trunkline")


class Member:
    """A consumer's part in its group. Used by one task at a time."""

    def __init__(
        self,
        server: Server,
        topics: Topics,
        watch: Watch,
        ringer: Ringer,
        name: str,
        partitions: Sequence[int] | None = None,
    ) -> None:
        self._server = server
        self._topics = topics
        self._watch = watch
        self._ringer = ringer
        self._name = name
        self._partitions = None if partitions is None else integer_array(partitions)
        self._topics_read: dict[int, Topic] = {}
        self.group_id = 0
        self.member_id = 0
        self.holdings: dict[int, Holding] = {}
        self._put_down: dict[int, Holding] = {}
        self.lost: set[tuple[str, int]] = set()
        self._paused: set[tuple[str, int]] = set()

    # -- coming and going --

    def join(self, group_id: int, topics: Sequence[Topic], seat: Seat) -> None:
        """Become a member; from now on the seat is shown the group."""
        self.group_id = group_id
        self._seat = seat
        self._topics_read = {topic.topic_id: topic for topic in topics}
        self._enter()
        try:
            self.settle(self._look())
        except BaseException:
            # Nobody would ever read what the others leave to this member.
            self.leave()
            raise

    def _enter(self) -> None:
        """Become a member, which holds nothing yet."""
        session = self._watch.start()
        topic_ids = integer_array(list(self._topics_read))
        # The token makes it one membership, however often it is sent.
        token = random.getrandbits(63)
        parameters = [self.group_id, session.session_no, session.timeout_s, topic_ids, self._name, token]
        ((self.member_id,),) = self._server.repeat(protocol.MEMBER_JOIN, [*parameters, self._partitions])
        self._watch.join_group(self._seat, self.group_id)
        self._ringer.ring_group(self.group_id)

    def _look(self) -> GroupView:
        """The group as it is now."""
        session = self._watch.start()
        rows = self._server.ask(protocol.GROUP_VIEW, [session.session_no, self.group_id])
        # A group without members shows nothing, whether it was deleted or everybody has gone: joining tells.
        return GroupView.of(rows[0]) if rows else GroupView(self.group_id, {}, (), (), is_whole=True)

    def leave(self) -> None:
        """Give everything back, where it was committed, and go; the others need not wait."""
        self._drop(list(self.holdings))
        self._server.repeat(protocol.MEMBER_LEAVE, [integer_array([self.member_id]), False])
        self._ringer.ring_group(self.group_id)

    # -- balance --

    def settle(self, view: GroupView) -> None:
        """Make of the view what this member has to do: note what it lost, begin to give back, take what is free."""
        done = False
        try:
            done = self._settle(view)
        finally:
            if not done:
                # The next view is looked at again, even if it is the same.
                self._seat.show_again()

    def _settle(self, view: GroupView) -> bool:
        """Whether everything was done that the view asks for."""
        if self.member_id not in view.members:
            view = self._look_again_or_enter()
        if self.member_id not in view.members:
            return False
        if not view.is_whole:
            self._begin_added()
        seen = {cursor.cursor_id: cursor for cursor in view.cursors}
        self._drop([each for each, held in self.holdings.items() if each not in seen or seen[each].epoch > held.epoch])
        self._release([each for each in view.held_by(self.member_id) if each not in self.holdings])
        owners = {each: cursor.owner for each, cursor in seen.items() if cursor.owner not in (None, self.member_id)}
        owners |= dict.fromkeys(self.holdings, self.member_id)
        target = balanced(view.members, {each: cursor.topic_id for each, cursor in seen.items()}, owners, view.barred())
        for cursor_id, holding in self.holdings.items():
            stays = target.get(cursor_id) == self.member_id
            holding.leaving_since = None if stays else holding.leaving_since or monotonic()
        self.give_back()
        mine = {cursor_id for cursor_id, member_id in target.items() if member_id == self.member_id}
        taken = self._take(sorted(mine - owners.keys()), seen)
        self._watch.follow_held(self._seat, self.holdings.values())
        if view.dead:
            self._server.repeat(protocol.MEMBER_LEAVE, [integer_array(view.dead), True])
        return taken

    def give_back(self) -> None:
        """Release what is to leave, once nothing of it is in the application's hand, or it has been for too long."""
        patience_s = self._server.settings.session_timeout_s
        leaving = [
            cursor_id
            for cursor_id, holding in self.holdings.items()
            if holding.leaving_since is not None
            and (not holding.has_uncommitted or monotonic() - holding.leaving_since > patience_s)
        ]
        self._drop(leaving)
        self._release(leaving)

    def _release(self, cursor_ids: Sequence[int]) -> None:
        """Give back what is not held here, though the server may say so: also what was taken by a call whose answer
        nobody waited for. Nobody would read it."""
        for cursor_id in cursor_ids:
            self._put_down.pop(cursor_id, None)
        if cursor_ids:
            self._server.repeat(protocol.GROUP_RELEASE, [self.member_id, integer_array(cursor_ids)])
            self._ringer.ring_group(self.group_id)
            self.look_again()

    def _take(self, cursor_ids: Sequence[int], seen: Mapping[int, SeenCursor]) -> bool:
        """Take what is free; False where somebody else was faster, or it is not free yet."""
        if not cursor_ids:
            return True
        rows = self._ask_for(cursor_ids)
        for cursor_id, epoch, next_offset in rows:
            place = seen[cursor_id]
            topic = self._topic(place.topic_id, place.partition)
            holding = Holding(
                cursor_id=cursor_id,
                topic=topic.name,
                topic_id=place.topic_id,
                partition=place.partition,
                partition_id=topic.partition_ids[place.partition],
                epoch=epoch,
                at=next_offset,
            )
            holding.is_paused = holding.place in self._paused
            self.holdings[cursor_id] = holding
        return len(rows) == len(cursor_ids)

    def retake(self, held: Sequence[Holding], deadline: float | None = None) -> dict[int, int]:
        """Take again what this member held, which ends whatever an older epoch was still about to do; the offsets at
        which the cursors stand. Where that fails, nobody knows them, and they are no longer held."""
        self.put_down(held)
        self.look_again()
        stands: dict[int, int] = {}
        lost = {holding.cursor_id: holding for holding in held}
        for cursor_id, epoch, next_offset in self._ask_for(sorted(lost), deadline):
            holding = lost.pop(cursor_id)
            holding.epoch = epoch
            stands[cursor_id] = next_offset
            self.pick_up([holding])
        if lost:
            raise _fenced(list(lost.values()), "another member has taken it; nothing was written")
        return stands

    def put_down(self, held: Sequence[Holding]) -> None:
        """Hold these no longer, until it is known where they stand."""
        for holding in held:
            self.holdings.pop(holding.cursor_id, None)
            self._put_down[holding.cursor_id] = holding

    def pick_up(self, held: Sequence[Holding]) -> None:
        """Hold these again, but for those that were given back meanwhile: a transaction whose caller was cancelled
        ends when it likes."""
        for holding in held:
            if self._put_down.get(holding.cursor_id) is holding:
                self.holdings[holding.cursor_id] = self._put_down.pop(holding.cursor_id)

    def _ask_for(self, cursor_ids: Sequence[int], deadline: float | None = None) -> list[Row]:
        """What the server lets this member take of these; nothing where it was removed, which the next view tells."""
        try:
            parameters = [self.member_id, integer_array(cursor_ids)]
            return self._server.repeat(protocol.GROUP_TAKE, parameters, deadline)
        except NotFound:
            return []

    def _look_again_or_enter(self) -> GroupView:
        """A view without this member: it is older than the membership, or the process does not count as alive at the
        moment, or the others took it for dead and have removed it. Then it begins anew."""
        view = self._look()
        if self.member_id in view.members or not self._watch.is_alive:
            return view
        logger.warning("this member of group %d was taken for dead, and joins again", self.group_id)
        self._drop(list(self.holdings))
        self._enter()
        return self._look()

    def _begin_added(self) -> None:
        """Let the group read partitions that were added to its topics."""
        for topic in list(self._topics_read.values()):
            found = self._topics.look_up(topic.name)
            if found.topic_id == topic.topic_id:
                # Also where this member knows of the partition already: the group may not.
                ((made,),) = self._server.repeat(protocol.GROUP_BEGIN, [self.group_id, topic.topic_id])
                self._topics_read[found.topic_id] = found
                if made:
                    self.look_again()

    def _topic(self, topic_id: int, partition: int) -> Topic:
        topic = self._topics_read[topic_id]
        if partition >= topic.partitions:
            topic = self._topics.look_up(topic.name)
            self._topics_read[topic_id] = topic
        return topic

    def _drop(self, cursor_ids: Sequence[int]) -> None:
        """Hold these no longer. What the application still has of them cannot be committed."""
        for cursor_id in cursor_ids:
            holding = self.holdings.pop(cursor_id)
            if holding.has_uncommitted:
                self.lost.add(holding.place)

    def look_again(self) -> None:
        """Let the watch show the group soon, also if it has not changed."""
        self._seat.show_again()
        self._watch.look()

    # -- cursors --

    def commit(self, moves: Sequence[tuple[Holding, int]]) -> None:
        """Move cursors forward, all or none. Fenced where one of them is another's now; it is then no longer held.
        OutcomeUnknown where that is so after an attempt whose answer was lost."""
        try:
            self._server.commit_cursors(self.member_id, _columns(moves))
        except Fenced as error:
            raise self.fence(error) from error
        except OutcomeUnknown as error:
            if isinstance(error.__cause__, Fenced):
                raise error from self.fence(error.__cause__)
            raise
        self._seat.wrote = True
        for holding, next_offset in moves:
            holding.committed = max(holding.committed, next_offset)

    def seek(self, holding: Holding, offset: int) -> None:
        """Set a cursor that is held to another offset, and read on from there."""
        at = holding.committed
        try:
            while at != offset:
                at = self._move(holding, offset)
        except Fenced as error:
            raise self.fence(error) from error
        self._seat.wrote = True
        holding.committed = offset
        holding.rewind(offset)

    def _move(self, holding: Holding, offset: int) -> int:
        """Where the cursor stands after one attempt to move it."""
        try:
            parameters = [self.member_id, *_columns([(holding, offset)])]
            ((_, holding.epoch),) = self._server.change(protocol.GROUP_MOVE, parameters)
        except OutcomeUnknown:
            # Taking it again tells whether it was moved, and ends the attempt if it is still under way.
            return self.retake([holding])[holding.cursor_id]
        return offset

    def commit_parameters(self, moves: Sequence[tuple[Holding, int]]) -> list[Any]:
        """For a commit inside somebody's transaction: exactly from where the cursors stand."""
        return [self.member_id, *_columns(moves), offset_array([holding.committed for holding, _ in moves])]

    def fence(self, error: Fenced) -> Fenced:
        """Hold what was lost no longer; the error, naming the partitions."""
        if error.partitions:
            return error
        self.look_again()
        return _fenced([self.holdings.pop(each) for each in error.cursor_ids if each in self.holdings], str(error))

    def pause(self, places: Iterable[tuple[str, int]], *, is_paused: bool) -> None:
        for place in places:
            (self._paused.add if is_paused else self._paused.discard)(place)
        for holding in self.holdings.values():
            holding.is_paused = holding.place in self._paused

    def check_lost(self) -> None:
        """Raise Fenced, once, for what was lost while the application had something of it in hand."""
        if self.lost:
            places, self.lost = sorted(self.lost), set()
            raise Fenced(
                f"{_named(places)} went to another member before this was committed; nothing was written",
                partitions=places,
            )


def _columns(moves: Sequence[tuple[Holding, int]]) -> list[EncodedArray]:
    cursor_ids = integer_array([holding.cursor_id for holding, _ in moves])
    epochs = integer_array([holding.epoch for holding, _ in moves])
    return [cursor_ids, epochs, offset_array([next_offset for _, next_offset in moves])]


def _fenced(lost: Sequence[Holding], reason: str) -> Fenced:
    places = [holding.place for holding in lost]
    cursor_ids = [holding.cursor_id for holding in lost]
    return Fenced(f"{_named(places)}: {reason}", partitions=places, cursor_ids=cursor_ids)


def _named(places: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"partition {partition} of {topic}" for topic, partition in places)
