"""Dead letters: looked at, sent back to where they came from, or passed over for good.

Which letters were dealt with is known in two places. Below the cursor of the group ``trunkline.redrive/<topic>`` all of
them were; above it, those that its inbox knows. A letter is noted there in the transaction that publishes it: it goes
back once, however often and with whichever filters a redrive is run. What a filter does not take stays, for a later
run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from time import monotonic

import msgspec
import psycopg

from trunkline.client import protocol
from trunkline.client.aio.client import AsyncClient
from trunkline.client.aio.connection import ServerConnection
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import sleep
from trunkline.client.arrays import integer_array
from trunkline.client.failures import translate
from trunkline.engine.checks import INT4_MAX, check_topic_name, check_whole
from trunkline.engine.redriving import LetterFilter, RedriveReport, memory_name, origin_of, sent_back, unfit_reason
from trunkline.errors import InvalidArgument, NotFound, OffsetOutOfRange, TrunklineError
from trunkline.records import PartitionRange, Record

FIND = "select trunkline.inbox_find(%s, %s, %s::int4, %s::int8[])"
NOTE = (
    "select number from unnest(%s::int8[]) number where trunkline.inbox_add(%s, "
    "convert_to(trunkline.record_id(%s, %s::int4, number), 'UTF8'))"
)
BATCH_RECORDS = 100
READ_RECORDS = 1_000
DAY_S = 86_400
KEEP_S = 3_650 * DAY_S
"""For how long it is known which letters were sent, of a topic that keeps letters without a limit of age."""

Progress = Callable[[int, int], None]


class DeadLetter(msgspec.Struct, frozen=True):
    """A record of a dead letter topic, and whether it was dealt with: sent back, or passed over by a purge."""

    record: Record
    is_done: bool


async def redrive(
    client: AsyncClient,
    topic: str,
    chosen: LetterFilter | None = None,
    *,
    to: str | None = None,
    rate_per_s: float | None = None,
    letters_max: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RedriveReport:
    """Publish dead letters again, to the topic each came from, or to ``to``; each letter once, over all runs.

    What they say of their death is taken off, and ``trunkline-redriven`` added. It looks at the letters that are there
    when it begins; those of one partition go in order. At most ``rate_per_s`` a second are sent, and ``letters_max`` in
    all; ``progress`` is told how many were looked at, and sent. With ``dry_run`` it only says what would be done.
    NotFound where a topic to send to does not exist; what went before that stays sent.
    """
    check_topic_name(topic)
    if chosen is not None and not isinstance(chosen, LetterFilter):
        raise InvalidArgument(f"chosen must be a LetterFilter, not {chosen!r}")
    if to is not None and check_topic_name(to) == topic:
        raise InvalidArgument(f"{topic} cannot be redriven to itself; name another topic")
    if rate_per_s is not None and (
        isinstance(rate_per_s, bool) or not isinstance(rate_per_s, int | float) or not 0 < rate_per_s < float("inf")
    ):
        raise InvalidArgument(f"rate_per_s must be a positive number, not {rate_per_s!r}")
    if letters_max is not None:
        check_whole("letters_max", letters_max, least=1)
    if not isinstance(dry_run, bool):
        raise InvalidArgument(f"dry_run must be True or False, not {dry_run!r}")
    run = _Redrive(Memory(client, topic), chosen or LetterFilter(), to, rate_per_s, letters_max, progress)
    return await (run.tried() if dry_run else run.done())


async def purge_letters(client: AsyncClient, topic: str) -> int:
    """Pass over every letter that is there now: no redrive sends it any more. How many there were.

    The records stay in the log until the topic's retention takes them.
    """
    memory = Memory(client, check_topic_name(topic))
    await memory.open()
    passed = 0
    floors = await memory.floors()
    for log in await client.offsets(topic):
        floor = max(floors[log.partition], log.start)
        passed += log.end - floor
        await memory.raise_floor(log.partition, log.end)
    return passed


async def dead_letters(
    client: AsyncClient,
    topic: str,
    chosen: LetterFilter | None = None,
    *,
    letters_max: int = 100,
    include_done: bool = False,
) -> list[DeadLetter]:
    """Letters of a topic, oldest first in each partition; those that were dealt with only with ``include_done``."""
    check_whole("letters_max", letters_max, least=1, most=INT4_MAX)
    memory, chosen = Memory(client, check_topic_name(topic)), chosen or LetterFilter()
    floors = await memory.floors()
    found: list[DeadLetter] = []
    for log in await client.offsets(topic):
        floor = floors.get(log.partition, log.start)
        begin = log.start if include_done else max(floor, log.start)
        async for letters in memory.letters(log, await memory.begin(log, begin, chosen)):
            taken = [letter for letter in letters if chosen.takes(letter)]
            known = await memory.known(taken)
            for letter in taken:
                is_done = letter.offset < floor or letter.offset in known
                if include_done or not is_done:
                    found.append(DeadLetter(letter, is_done))
            if len(found) >= letters_max:
                return found[:letters_max]
    return found


class Memory:
    """What is known of the letters of one topic."""

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.name = memory_name(topic)
        # A part of the client in all but its place: it needs transactions of its own.
        self.server: Server = client._server  # noqa: SLF001

    async def open(self) -> None:
        """Make what is to be remembered in, where it is not there."""
        known = await self.client.topic(self.topic)
        await self.server.repeat(
            protocol.GROUP_ENTER, [self.name, integer_array([known.topic_id]), True, "earliest", None, None]
        )
        age_s = known.retention_age_s
        # A segment goes when its last record is old enough, and not at once: so it is known for longer than that.
        keep_s = KEEP_S if age_s is None else min(KEEP_S, 2 * age_s + 30 * DAY_S)
        await self.server.repeat(protocol.INBOX_OPEN, [self.name, keep_s])

    async def floors(self) -> dict[int, int]:
        """By partition: every letter below was dealt with. Empty where there was never a redrive."""
        try:
            group = await self.client.describe_group(self.name)
        except NotFound:
            return {}
        return {each.partition: each.cursor for each in group.partitions if each.topic == self.topic}

    async def raise_floor(self, partition: int, offset: int) -> None:
        floor = (await self.floors())[partition]
        if offset > floor:
            place = [self.name, self.topic, partition, "offset", offset, None, None]
            await self.server.repeat(protocol.GROUP_SEEK, [*place, True])

    async def known(self, letters: Sequence[Record]) -> set[int]:
        """The offsets of those that were sent, of letters of one partition."""
        if not letters:
            return set()
        offsets = [letter.offset for letter in letters]
        ((found,),) = await self.server.ask(FIND, [self.name, self.topic, letters[0].partition, offsets])
        return set(found)

    async def begin(self, log: PartitionRange, floor: int, chosen: LetterFilter) -> int:
        """Where to begin to look: nothing between the floor and there can be chosen."""
        if chosen.since is None:
            return floor
        return max(floor, await self.client.offset_at(self.topic, log.partition, chosen.since))

    async def letters(
        self, log: PartitionRange, begin: int, records_max: int = READ_RECORDS
    ) -> AsyncIterator[list[Record]]:
        """The letters from ``begin`` to the end that the log had; without those that retention takes meanwhile."""
        at = begin
        while at < log.end:
            try:
                letters = await self.client.read(
                    self.topic, partition=log.partition, offset=at, max_records=min(records_max, log.end - at)
                )
            except OffsetOutOfRange as error:
                if error.start is None or error.start <= at:
                    raise
                at = error.start
                continue
            at = letters[-1].offset + 1
            yield letters


class _Redrive:
    """One run over a topic of dead letters."""

    def __init__(
        self,
        memory: Memory,
        chosen: LetterFilter,
        to: str | None,
        rate_per_s: float | None,
        letters_max: int | None,
        progress: Progress | None,
    ) -> None:
        self._memory = memory
        self._chosen = chosen
        self._to = to
        self._rate_per_s = rate_per_s
        self._left = letters_max
        self._progress = progress
        self._began = monotonic()
        self._looked = 0
        self._topics: dict[str, int] = {}
        self._sent_before = 0
        self._passed_over = 0
        self._unfit: list[str] = []
        self._is_complete = True

    async def tried(self) -> RedriveReport:
        """What would be done. Changes nothing."""
        await self._run(await self._memory.floors(), is_dry_run=True)
        return self._report(is_dry_run=True)

    async def done(self) -> RedriveReport:
        await self._memory.open()
        await self._run(await self._memory.floors(), is_dry_run=False)
        return self._report(is_dry_run=False)

    def _report(self, *, is_dry_run: bool) -> RedriveReport:
        return RedriveReport(
            topic=self._memory.topic,
            sent=sum(self._topics.values()),
            topics=dict(sorted(self._topics.items())),
            sent_before=self._sent_before,
            passed_over=self._passed_over,
            unfit=len(self._unfit),
            first_unfit=self._unfit[0] if self._unfit else None,
            is_complete=self._is_complete,
            is_dry_run=is_dry_run,
        )

    async def _run(self, floors: dict[int, int], *, is_dry_run: bool) -> None:
        for log in await self._memory.client.offsets(self._memory.topic):
            floor = max(floors.get(log.partition, log.start), log.start)
            is_whole = await self._partition(log, floor, is_dry_run=is_dry_run)
            if not self._is_complete:
                return
            if is_whole and not is_dry_run:
                await self._memory.raise_floor(log.partition, log.end)

    async def _partition(self, log: PartitionRange, floor: int, *, is_dry_run: bool) -> bool:
        """Whether all letters of the partition are dealt with now."""
        begin = await self._memory.begin(log, floor, self._chosen)
        self._passed_over += begin - floor
        is_whole = begin == floor
        most = BATCH_RECORDS if self._rate_per_s is None else max(1, min(BATCH_RECORDS, int(self._rate_per_s)))
        async for letters in self._memory.letters(log, begin, most):
            is_whole = await self._batch(letters, is_dry_run=is_dry_run) and is_whole
            self._looked += len(letters)
            if self._progress is not None:
                self._progress(self._looked, sum(self._topics.values()))
            if not self._is_complete:
                return False
            if not is_dry_run:
                await self._pause()
        return is_whole

    async def _batch(self, letters: list[Record], *, is_dry_run: bool) -> bool:
        """Send what is to be sent; whether all of them are dealt with."""
        taken = [letter for letter in letters if self._chosen.takes(letter)]
        known = await self._memory.known(letters)
        fresh = [letter for letter in taken if letter.offset not in known]
        why = {letter.offset: unfit_reason(letter, self._to) for letter in fresh}
        self._unfit += [reason for reason in why.values() if reason is not None]
        fit = [letter for letter in fresh if why[letter.offset] is None]
        if self._left is not None and len(fit) > self._left:
            fit = fit[: self._left]
            self._is_complete = False
        sent = fit if is_dry_run else await self._send(fit)
        for letter in sent:
            self._topics[self._target(letter)] = self._topics.get(self._target(letter), 0) + 1
        if self._left is not None:
            self._left -= len(sent)
        self._sent_before += len(known) + len(fit) - len(sent)
        self._passed_over += sum(letter.offset not in known for letter in letters) - len(fresh)
        return len(known) + len(fit) == len(letters)

    def _target(self, letter: Record) -> str:
        return self._to or origin_of(letter) or ""

    async def _send(self, letters: list[Record]) -> list[Record]:
        """Publish them; those that nobody else has sent meanwhile. Tried again: what was done is known then."""
        deadline = self._memory.server.deadline()
        attempt = 0
        while letters:
            try:
                async with self._memory.server.pool.connection(deadline) as connection:
                    new = await self._send_on(connection, letters)
            except TrunklineError as error:
                if not error.retryable:
                    raise
                await self._memory.server.pause(attempt, deadline, error)
            else:
                # After an answer that was lost it is not known whether they were sent by this run: count them.
                return letters if attempt else new
            attempt += 1
        return []

    async def _send_on(self, connection: ServerConnection, letters: list[Record]) -> list[Record]:
        memory, settings = self._memory, self._memory.server.settings
        limits = [str(round(settings.lock_wait_s * 1000)), str(round(settings.session_timeout_s * 1000))]
        offsets = [letter.offset for letter in letters]
        try:
            async with memory.client.transaction(connection):
                await connection.execute(protocol.SESSION_LOCAL, limits)
                noted = await connection.execute(NOTE, [offsets, memory.name, memory.topic, letters[0].partition])
                numbers = {number for (number,) in await noted.fetchall()}
                new = [letter for letter in letters if letter.offset in numbers]
                await self._publish(connection, new)
        except psycopg.Error as error:
            raise translate(error) from error
        return new

    async def _publish(self, connection: ServerConnection, letters: list[Record]) -> None:
        for topic in dict.fromkeys(map(self._target, letters)):
            back = [sent_back(letter) for letter in letters if self._target(letter) == topic]
            try:
                await self._memory.client.publish_many(topic, back, conn=connection)
            except NotFound as error:
                raise NotFound(
                    f"letters of {self._memory.topic} came from topic {topic}, which does not exist; create it, send "
                    "them to another one (to), or choose others (origin)"
                ) from error

    async def _pause(self) -> None:
        if self._rate_per_s is not None:
            due = self._began + sum(self._topics.values()) / self._rate_per_s
            await sleep(max(0.0, due - monotonic()))
