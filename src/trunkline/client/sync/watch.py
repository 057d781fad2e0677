# Generated from src/trunkline/client/aio/watch.py by tools/twins.py (make fix). Change the source, not this file.
"""One watch a client: it keeps the process alive in its groups, hears the doorbell, and polls for all its readers.

On a direct connection it owns the listening session: that session's lock says that the process lives, its LISTEN
hears rings, and the one statement it sends every ``heartbeat_s`` shows who else is there; none of them writes. Behind
a pooler sessions are not ours, so there it adds a row for each heartbeat, and polls.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec
from psycopg import Notify

from trunkline.client import protocol
from trunkline.client.arrays import integer_array, offset_array
from trunkline.client.sync.connection import Row, ServerConnection, open_connection
from trunkline.client.sync.pool import Pool
from trunkline.client.sync.shim import Mutex, Service, Stop, Waiter, Waker
from trunkline.engine.backoff import backoff_s
from trunkline.engine.holdings import Holding
from trunkline.engine.views import GroupView
from trunkline.errors import TrunklineError
from trunkline.records import Topic
from trunkline.settings import ClientSettings

logger = logging.getLogger("trunkline")

POLL_FIRST_S = 0.01
SWEEP_INTERVAL_S = 60.0
BUSY_AFTER_S = 0.05
"""Readers that have not waited for so long are behind: they find records without being told of them."""
DEAF_S = 0.1
"""For so long at most nothing is heard while all readers are behind. Rings are also about groups."""


class Seat:
    """What one reader shares with the watch: what it waits for, and what the watch has seen meanwhile.

    ``hints`` are partitions, by their ids, that may have more; ``view`` is its group as it was seen last. ``begins`` is
    called when the reader begins to wait.
    """

    def __init__(self, begins: Callable[[], None] = lambda: None) -> None:
        self._begins = begins
        self._waited_until = monotonic()
        self.channels: Mapping[str, Sequence[int]] = {}
        self.group_id: int | None = None
        self.wrote = False
        self._mutex = Mutex()
        self._hints: set[int] = set()
        self._view: GroupView | None = None
        self._seen: GroupView | None = None
        self._awaited: dict[int, int] = {}
        self._waiter: Waiter[bool] | None = None
        self._nudged = False
        self._overdue: Callable[[], int | None] = lambda: None
        self._give_up: Callable[[], None] = lambda: None

    def give_up_by(self, overdue: Callable[[], int | None], give_up: Callable[[], None]) -> None:
        """Let the watch ask which member has to leave its group, because its reader has stayed away for too long, and
        say when it has."""
        self._overdue = overdue
        self._give_up = give_up

    def overdue(self) -> int | None:
        return self._overdue()

    def give_up(self) -> None:
        self._give_up()

    @property
    def has_news(self) -> bool:
        return self._view is not None

    def take_hints(self) -> set[int]:
        with self._mutex:
            hints, self._hints = self._hints, set()
            return hints

    def take_view(self) -> GroupView | None:
        with self._mutex:
            view, self._view = self._view, None
            return view

    def wait(self, awaited: dict[int, int], timeout_s: float) -> None:
        """Return at a hint of what is awaited, at a new view, or when the time is over. ``awaited``: partition to next
        offset."""
        waiter: Waiter[bool] = Waiter()
        with self._mutex:
            if not self._hints.isdisjoint(awaited) or self._view is not None or self._nudged:
                self._nudged = False
                return
            self._waiter = waiter
            self._awaited = awaited
        try:
            self._begins()
            waiter.wait(timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._mutex:
                self._waiter = None
                self._nudged = False
                self._awaited = {}
                self._waited_until = monotonic()

    @property
    def awaited(self) -> dict[int, int]:
        return self._awaited

    def has_waited(self, since: float) -> bool:
        """Whether its reader waits, or has waited since then."""
        return self._waiter is not None or self._waited_until >= since

    def hint(self, partition_ids: Iterable[int]) -> None:
        """Note partitions that may have more. Others of its topics than those that it waits for do not wake it."""
        with self._mutex:
            self._hints.update(partition_ids)
            if not self._hints.isdisjoint(self._awaited):
                self._wake()

    def show(self, view: GroupView) -> None:
        """Tell it how its group looks now, if it looks different."""
        with self._mutex:
            if view != self._seen:
                self._seen = self._view = view
                self._wake()

    def show_again(self) -> None:
        """Forget what was shown: the next view is news, whatever it says."""
        with self._mutex:
            self._seen = None

    def nudge(self) -> None:
        """End its wait, or the next one."""
        with self._mutex:
            self._nudged = True
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.give(True)


class Session(msgspec.Struct, frozen=True):
    """How the process is known to be alive: ``timeout_s`` is None where a session's lock says so."""

    session_no: int
    timeout_s: float | None


class Watch:
    """The watch of one client. Started by its first reader, closed with the client."""

    def __init__(self, url: str, settings: ClientSettings, pool: Pool) -> None:
        self._url = url
        self._settings = settings
        self._pool = pool
        self._mutex = Mutex()
        self._seats: list[Seat] = []
        self._listening: set[str] = set()
        self._must_listen = False
        self._waker: Waker | None = None
        self._service: Service | None = None
        self._starting: list[Waiter[bool]] = []
        self._connection: ServerConnection | None = None
        self._session_no: int | None = None
        self._pooled = False
        self._beat_due = 0.0
        self._poll_due = 0.0
        self._sweep_due = monotonic() + SWEEP_INTERVAL_S
        self._idle_polls = 0
        self._heard = False
        self._deaf = False

    def start(self) -> Session:
        """Make sure that it runs, and that the process counts as alive; raises where the server cannot be reached."""
        waiter: Waiter[bool] = Waiter()
        with self._mutex:
            if self._service is not None:
                return self.session
            is_first = not self._starting
            self._starting.append(waiter)
        if not is_first:
            waiter.wait(self._settings.deadline_s)
            return self.start()
        try:
            self._begin()
            waker = self._waker = Waker()
            self._service = Service("trunkline-watch", self._loop, wake=waker.wake)
        except BaseException:
            self._disconnect()
            raise
        finally:
            with self._mutex:
                waiting, self._starting = self._starting, []
            for each in waiting:
                each.give(True)
        return self.session

    @property
    def session(self) -> Session:
        assert self._session_no is not None
        return Session(self._session_no, self._settings.session_timeout_s if self._pooled else None)

    @property
    def is_alive(self) -> bool:
        """Whether the process counts as alive now; not while the server is away, or its session was ended."""
        return self._connection is not None

    @property
    def hears(self) -> bool:
        """Whether rings arrive here."""
        return self._connection is not None and not self._pooled and self._settings.doorbell

    def seat(self) -> Seat:
        """A seat for a reader; it hears nothing yet."""
        seat = Seat(self._hear_again)
        with self._mutex:
            self._seats.append(seat)
        return seat

    def follow(self, seat: Seat, topic: Topic) -> None:
        """Let the seat hear of a topic, with the partitions that it has now."""
        with self._mutex:
            seat.channels = {**seat.channels, protocol.topic_channel(topic.topic_id): topic.partition_ids}
        self._listen_anew()

    def follow_held(self, seat: Seat, held: Iterable[Holding]) -> None:
        """Let the seat hear of these partitions, and of no others. Rings about those of other members wake nobody
        here."""
        channels: dict[str, list[int]] = {}
        for each in held:
            channels[protocol.partition_channel(each.topic_id, each.partition)] = [each.partition_id]
            channels.setdefault(protocol.whole_channel(each.topic_id), []).append(each.partition_id)
        if channels != seat.channels:
            seat.channels = channels
            self._listen_anew()

    def join_group(self, seat: Seat, group_id: int) -> None:
        """Show this group to the seat, now and whenever it changes."""
        seat.group_id = group_id
        self._must_listen = True
        seat.show_again()
        self.look()

    def leave(self, seat: Seat) -> None:
        with self._mutex:
            if seat in self._seats:
                self._seats.remove(seat)
        # Nothing is in a hurry, and a forked child must not wake its parent's watch.
        self._must_listen = True

    def look(self) -> None:
        """Look at all groups as soon as possible."""
        self._beat_due = 0.0
        self._wake()

    def poll_soon(self) -> None:
        """A reader begins to wait. Where no ring will tell it of new records, the next poll comes soon."""
        if not self.hears:
            self._idle_polls = 0
            self._poll_due = min(self._poll_due, monotonic() + POLL_FIRST_S)
            self._wake()

    def close(self) -> None:
        """End it, and with it the process's life in its groups. Twice is fine."""
        with self._mutex:
            service, self._service = self._service, None
            seats = list(self._seats)
        if service is not None:
            service.close()
        for seat in seats:
            seat.nudge()

    def _listen_anew(self) -> None:
        self._must_listen = True
        self._wake()

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.wake()

    # -- the loop --

    def _loop(self, stop: Stop) -> None:
        waker = self._waker
        assert waker is not None
        attempt = 0
        try:
            while not stop.is_set:
                try:
                    if self._connection is None:
                        self._begin()
                    self._round(waker)
                    attempt = 0
                    continue
                except TrunklineError as error:
                    logger.warning("the watch lost the server, and tries again: %s", error)
                except Exception:
                    # Readers and the process's life in its groups depend on this loop: it must not end unseen.
                    logger.exception("the watch failed, and tries again")
                self._disconnect()
                for seat in list(self._seats):
                    seat.nudge()
                attempt += 1
                stop.wait(self._pause_s(attempt))
        finally:
            self._disconnect()
            waker.close()

    def _pause_s(self, attempt: int) -> float:
        settings = self._settings
        return backoff_s(attempt, first_s=settings.retry_first_s, max_s=settings.retry_max_s, chance=random.random())

    def _begin(self) -> None:
        """Open the listening session, or find that there can be none, and count as alive."""
        self._pool.check_usable()
        settings = msgspec.structs.replace(
            self._settings, application_name=f"{self._settings.application_name} doorbell"
        )
        deadline = monotonic() + self._settings.connect_timeout_s
        connection = open_connection(self._url, settings, deadline)
        self._connection = connection
        self._listening, self._must_listen = set(), True
        self._pooled = connection.pooled
        if self._pooled:
            self._beat()
        else:
            timeout_ms = str(round(self._settings.session_timeout_s * 1000))
            ((self._session_no, _),) = self._call(protocol.MEMBER_SESSION, [self._session_no, timeout_ms])
        # Whatever happened meanwhile was not heard.
        self._beat_due = self._poll_due = 0.0

    def _round(self, waker: Waker) -> None:
        self._listen()
        now = monotonic()
        if now >= self._beat_due:
            self._beat_due = now + self._settings.heartbeat_s
            self._heartbeat()
        if now >= self._poll_due:
            self._poll()
        if now >= self._sweep_due:
            self._sweep_due = now + SWEEP_INTERVAL_S
            self._sweep()
        connection = self._connected()
        connection.take_notifies()
        pause_s = min(self._beat_due, self._poll_due, self._sweep_due) - monotonic()
        if self._is_needless():
            waker.wait(min(pause_s, DEAF_S))
            self._deaf = False
        else:
            waker.wait(pause_s, connection.pgconn.socket)
        connection.take_notifies()

    def _is_needless(self) -> bool:
        """Whether to hear nothing for a while: rings come, and every reader has enough to do without them. Each ring
        would wake this loop, which takes time from just these readers."""
        heard, self._heard = self._heard, False
        # Before the seats are looked at: a reader that begins to wait meanwhile finds it, and wakes this.
        self._deaf = heard
        if heard:
            since = monotonic() - BUSY_AFTER_S
            self._deaf = not any(seat.has_waited(since) for seat in list(self._seats))
        return self._deaf

    def _hear_again(self) -> None:
        """A reader begins to wait."""
        if self._deaf:
            self._wake()

    def _listen(self) -> None:
        """Hear what the seats want to hear, and nothing else: whatever is heard takes time."""
        if not (self.hears and self._must_listen):
            return
        self._must_listen = False
        wanted: set[str] = set()
        for seat in list(self._seats):
            wanted.update(seat.channels)
            if seat.group_id is not None:
                wanted.add(protocol.group_channel(seat.group_id))
        new, old = sorted(wanted - self._listening), sorted(self._listening - wanted)
        if new or old:
            self._connected().listen(new, self._hear, old)
        self._listening = wanted
        for channel in new:
            # What was announced before was not heard: whoever reads it looks once more.
            self._hear(Notify(channel, "", 0))

    def _heartbeat(self) -> None:
        """Show that the process lives, and every seat its group. Members whose readers are overdue have to leave: as
        long as they belong to the group, the others leave partitions to them."""
        if self._pooled:
            self._beat()
        seats = list(self._seats)
        for seat in seats:
            overdue = seat.overdue()
            if overdue is not None:
                self._call(protocol.MEMBER_LEAVE, [integer_array([overdue]), False])
                seat.give_up()
        views = {row[0]: GroupView.of(row) for row in self._call(protocol.GROUP_VIEW, [self._session_no, None])}
        for seat in seats:
            if seat.group_id is not None:
                # A group that is not there any more has no members: its own will notice.
                seat.show(views.get(seat.group_id) or GroupView(seat.group_id, {}, (), (), is_whole=True))

    def _beat(self) -> None:
        ((self._session_no,),) = self._call(protocol.MEMBER_BEAT, [self._session_no])

    def _poll(self) -> None:
        """Ask once for everything that the readers wait for, and let those go on that have more."""
        awaited: dict[int, int] = {}
        seats = [(seat, seat.awaited) for seat in list(self._seats)]
        for _, wanted in seats:
            for partition_id, offset in wanted.items():
                awaited[partition_id] = min(offset, awaited.get(partition_id, offset))
        found: set[int] = set()
        if awaited:
            parameters = [integer_array(list(awaited)), offset_array(list(awaited.values()))]
            found = {partition_id for (partition_id,) in self._call(protocol.MORE, parameters)}
        for seat, wanted in seats:
            if found & wanted.keys():
                seat.hint(found & wanted.keys())
        # Where rings arrive polling is only the net below, and need not hurry.
        self._idle_polls = 0 if found else self._idle_polls + 1
        attempt = 30 if self.hears else self._idle_polls
        self._poll_due = monotonic() + backoff_s(
            attempt, first_s=POLL_FIRST_S, max_s=self._settings.poll_max_s, chance=random.random()
        )

    def _sweep(self) -> None:
        """Clean up after readers that have moved cursors."""
        wrote = [seat for seat in list(self._seats) if seat.wrote]
        if wrote:
            for seat in wrote:
                seat.wrote = False
            self._call(protocol.GROUP_SWEEP, [self._session_no])

    def _hear(self, notify: Notify) -> None:
        if notify.channel.startswith("trunkline_g"):
            self._beat_due = 0.0
            return
        self._heard = True
        for seat in list(self._seats):
            ids = seat.channels.get(notify.channel)
            if ids is not None:
                seat.hint(_rung(notify.payload, ids))

    def _call(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connected().call(statement, parameters)

    def _connected(self) -> ServerConnection:
        """The connection, for one statement. Never one of the pool's: what waits for those must not keep the process
        from showing that it lives."""
        assert self._connection is not None
        # Once it has been silent for so long, the server has ended the session.
        wait_s = min(self._settings.statement_timeout_s, self._settings.session_timeout_s)
        self._connection.deadline = monotonic() + wait_s
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _rung(payload: str, partition_ids: Sequence[int]) -> Iterable[int]:
    """The partitions that a ring names; all of them where it names none, or what we do not understand: it is a hint."""
    named = payload.split(",")
    if not all(number.isdecimal() for number in named):
        return partition_ids
    return [partition_ids[int(number)] for number in named if int(number) < len(partition_ids)]
