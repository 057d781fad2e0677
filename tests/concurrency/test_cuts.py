"""The connection breaks at the worst moments: around COMMIT. Sequence numbers find out what came of it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle

import psycopg
import pytest

import trunkline
import trunkline.aio
from tests.checker.history import Recorder, Sent
from tests.checker.invariants import CHECKS, assert_clean
from tests.concurrency.proxy import Fault, Proxy, as_if_direct, between
from tests.concurrency.sessions import WAIT_S, own_time, wait_until
from tests.concurrency.workload import client_writer, reader, running, whole_log
from trunkline.client.sync.client import Client
from trunkline.errors import DeadlineExceeded, OutcomeUnknown, TrunklineError
from trunkline.records import Message
from trunkline.settings import ClientSettings, TopicSettings

CUTS = [20, pytest.param(200, marks=pytest.mark.chaos)]
QUICK = ClientSettings(deadline_s=20, statement_timeout_s=0.5, heartbeat_s=0.25, session_timeout_s=0.5)
COMMITTED = {Fault.REPLY_LOST, Fault.REPLY_TORN}
SILENT = {Fault.BLACK_HOLE, Fault.HELD}


@pytest.fixture(params=["direct", "pooled"])
def proxied(
    request: pytest.FixtureRequest, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the test's database and the URL through it: once the client sends single statements, and once,
    as behind a pooler, transactions with BEGIN and COMMIT."""
    with between(db_url) as (proxy, url):
        if request.param == "direct":
            as_if_direct(proxy, monkeypatch)
        yield proxy, url


def _end(db_url: str) -> int:
    with trunkline.connect(db_url) as direct:
        return direct.offsets("t")[0].end


@pytest.mark.parametrize("fault", Fault)
def test_a_publish_survives_each_kind_of_cut(db_url: str, proxied: tuple[Proxy, str], fault: Fault) -> None:
    """One fault, exactly at the commit of one publish: the client tries again, gets the record's offset, and the record
    is there once, whether or not the first attempt had committed."""
    proxy, url = proxied
    with trunkline.connect(url, settings=QUICK) as tl:
        tl.create_topic("t")
        assert tl.publish("t", b"before").offset == 1
        proxy.arm(fault)
        assert tl.publish("t", b"cut").offset == 2
        assert proxy.hits == [fault]
        proxy.deliver_late()
        assert tl.publish("t", b"after").offset == 3
        assert [record.payload for record in tl.read("t")] == [b"before", b"cut", b"after"]


@pytest.mark.parametrize("cuts", CUTS)
def test_cuts_of_the_reply_to_commit_leave_no_duplicate(
    db_url: str, proxied: tuple[Proxy, str], seed: int, cuts: int
) -> None:
    """The reply to COMMIT is cut so many times, with other faults between, for publishes of one record and of several
    partitions: every record is acknowledged and stands in the log once."""
    proxy, url = proxied
    chance = random.Random(seed)
    others = Fault if cuts > 100 else (Fault.CLIENT_CUT, Fault.DELAYED)
    faults = cycle([*COMMITTED, *COMMITTED, *others])
    recorder = Recorder()
    with trunkline.connect(url, settings=QUICK) as tl:
        tl.create_topic("t", partitions=3)
        _publish(recorder, tl, 0, 1)
        while sum(hit in COMMITTED for hit in proxy.hits) < cuts:
            number = len(proxy.hits) + 1
            proxy.arm(next(faults))
            _publish(recorder, tl, number, chance.choice([1, 1, 5]))
            assert len(proxy.hits) == number, "each fault has hit a commit"
    proxy.deliver_late()
    print(f"{cuts} cuts after the commit, {len(proxy.hits) - cuts} others")
    history = recorder.finish(whole_log(db_url, "t"))
    assert_clean(history)
    assert {publish.outcome for publish in history.publishes()} == {"acknowledged"}


def _publish(recorder: Recorder, tl: Client, number: int, size: int) -> None:
    sent = [Sent(b"%d.%d" % (number, index), b"%d" % index) for index in range(size)]
    invoked = recorder.tick()
    places = tl.publish_many("t", [Message(each.payload, key=each.key) for each in sent])
    recorder.published("w", sent, invoked, [(at.partition, at.offset) for at in places])


@pytest.mark.parametrize("duration_s", [1.5, pytest.param(60.0, marks=pytest.mark.chaos)])
def test_writers_and_readers_behind_a_network_that_breaks_all_the_time(
    db_url: str, proxied: tuple[Proxy, str], seed: int, duration_s: float
) -> None:
    """A fifth of all commits is cut, of four writers at once, while two readers read through the same network."""
    proxy, url = proxied
    with trunkline.connect(db_url) as tl:
        tl.create_topic("t", partitions=3)
    with running(url, "t", seed, partitions=3) as load:
        load.start(client_writer, times=4)
        load.start(reader, times=2)
        load.wait_for_everyone()
        proxy.by_chance(seed, 0.2, [fault for fault in Fault if fault not in SILENT])
        load.run_for(duration_s)
        wait_until(lambda: load.failures or len(proxy.hits) > 10, "more than ten are cut")
        proxy.by_chance(seed, 0, [])
        proxy.deliver_late()
        history = load.finish(db_url)
    print(f"{len(proxy.hits)} cuts")
    assert_clean(history)
    assert len(proxy.hits) > 10


def test_without_idempotence_a_lost_reply_is_an_unknown_outcome(db_url: str, proxied: tuple[Proxy, str]) -> None:
    """A client that was told not to number its batches does not guess: it raises OutcomeUnknown, and does not try
    again."""
    proxy, url = proxied
    with trunkline.connect(url, settings=ClientSettings(idempotent=False)) as tl:
        tl.create_topic("t")
        tl.publish("t", b"before")
        proxy.arm(Fault.REPLY_LOST)
        with pytest.raises(OutcomeUnknown):
            tl.publish("t", b"cut")
        assert _end(db_url) == 3
        assert tl.publish("t", b"after").offset == 3


def test_a_permanent_error_after_a_lost_reply_does_not_claim_that_nothing_was_written(
    db_url: str, proxied: tuple[Proxy, str]
) -> None:
    """COMMIT was executed, its reply lost, and before the next attempt the right to publish is taken away. The
    record is in the log, so PermissionDenied would be a lie: OutcomeUnknown."""
    proxy, url = proxied
    with psycopg.connect(db_url, autocommit=True) as admin:
        admin.execute("drop role if exists cut_app")
        admin.execute("create role cut_app login password 'cut' in role trunkline_producer, trunkline_consumer")
        try:
            with trunkline.connect(db_url) as owner:
                owner.create_topic("t")
            _, _, place = url.partition("@")
            with trunkline.connect(f"postgresql://cut_app:cut@{place}", settings=QUICK) as tl:
                tl.publish("t", b"before")
                proxy.after_answer = lambda: admin.execute("revoke trunkline_producer from cut_app")
                proxy.arm(Fault.REPLY_LOST)
                with pytest.raises(OutcomeUnknown):
                    tl.publish("t", b"cut")
            assert _end(db_url) == 3
        finally:
            admin.execute("drop role cut_app")


def test_closing_while_an_outcome_is_open_does_not_claim_that_nothing_was_written(
    db_url: str, proxied: tuple[Proxy, str]
) -> None:
    """The reply to COMMIT is lost and the client is closed before it could ask again: OutcomeUnknown, not Closed."""
    proxy, url = proxied
    tl = trunkline.connect(url, settings=QUICK)
    tl.create_topic("t")
    tl.publish("t", b"before")
    proxy.after_answer = tl.close
    proxy.arm(Fault.REPLY_LOST)
    with pytest.raises(OutcomeUnknown):
        tl.publish("t", b"cut")
    assert _end(db_url) == 3


@pytest.mark.parametrize("deadline_s", [2.0, pytest.param(4.0, marks=pytest.mark.chaos)])
def test_a_black_holed_server_is_an_error_within_the_deadline(proxied: tuple[Proxy, str], deadline_s: float) -> None:
    """Nothing comes back from the server any more, not even an end. Publishing, reading and asking, on the connection
    that is there and on new ones, end with a typed error within deadline + 1 s; when the network is back, so are we."""
    proxy, url = proxied
    with trunkline.connect(url, settings=ClientSettings(deadline_s=deadline_s)) as tl:
        tl.create_topic("t")
        tl.publish("t", b"before")
        proxy.darken()
        for call in (
            lambda: tl.publish("t", b"lost"),
            lambda: tl.publish("t", b"lost"),
            lambda: tl.read("t"),
        ):
            with own_time() as took, pytest.raises((OutcomeUnknown, DeadlineExceeded)):
                call()
            assert took() < deadline_s + 1
        proxy.darken(dark=False)
        after = tl.publish("t", b"after")
        assert tl.read("t", offset=after.offset)[0].payload == b"after"
        assert [record.payload for record in tl.read("t")].count(b"after") == 1


SHORT = ClientSettings(deadline_s=2.0, lock_timeout_s=0.2)


def _outcome(recorder: Recorder, payload: bytes, invoked: int, error: TrunklineError) -> None:
    """Record an error that a publish may end with when its time is over."""
    if isinstance(error, OutcomeUnknown):
        recorder.unknown("w", [Sent(payload)], invoked)
    else:
        assert isinstance(error, DeadlineExceeded)
        recorder.failed("w", [Sent(payload)], invoked)


def test_many_callers_of_one_client_all_end_within_the_deadline(db_url: str) -> None:
    """Another transaction holds the partition. Twelve threads publish through one client, some while others wait: each
    ends with a typed error by its own deadline, and what says that it was not written is not in the log."""
    recorder = Recorder()
    took: list[float] = []
    with own_time() as now, trunkline.connect(db_url, settings=SHORT) as tl, psycopg.connect(db_url) as holder:
        tl.create_topic("t")
        tl.publish("t", b"before")
        holder.execute("select trunkline.log_publish('t', 'held')")

        def caller(number: int) -> None:
            begun, invoked = now(), recorder.tick()
            with pytest.raises(TrunklineError) as raised:
                tl.publish("t", b"%d" % number)
            took.append(now() - begun)
            _outcome(recorder, b"%d" % number, invoked, raised.value)

        threads = [threading.Thread(target=caller, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert len(took) == 12
        holder.rollback()
        assert max(took) < SHORT.deadline_s + 1
        at = tl.publish("t", b"after")
    recorder.published("w", [Sent(b"before"), Sent(b"after")], recorder.tick(), [(0, 1), (0, at.offset)])
    assert_clean(recorder.finish(whole_log(db_url, "t")), [CHECKS["lost-write"], CHECKS["aborted-read"], CHECKS["gap"]])


async def test_many_callers_of_one_async_client_all_end_within_the_deadline(db_url: str) -> None:
    """As above with tasks that begin in the same step of the loop, so that their deadlines end together: nobody gets a
    bare CancelledError, which would look like a cancellation of its own."""
    async with trunkline.aio.connect(db_url, settings=SHORT) as tl:
        await tl.create_topic("t")
        await tl.publish("t", b"before")
        with psycopg.connect(db_url) as holder:
            holder.execute("select trunkline.log_publish('t', 'held')")
            with own_time() as took:
                results = await asyncio.gather(
                    *(tl.publish("t", b"%d" % number) for number in range(12)), return_exceptions=True
                )
            assert took() < SHORT.deadline_s + 1
            assert {type(result) for result in results} <= {DeadlineExceeded, OutcomeUnknown}
            holder.rollback()
        await tl.publish("t", b"after")


async def test_a_caller_is_not_ended_by_the_deadline_of_another(db_url: str) -> None:
    """Callers share a batch that waits for a held partition. The first one's time ends; the second came later, and is
    served when the partition becomes free within its own time."""
    settings = ClientSettings(deadline_s=4.0, lock_timeout_s=0.2)
    async with trunkline.aio.connect(db_url, settings=settings) as tl:
        await tl.create_topic("t")
        await tl.publish("t", b"before")
        with psycopg.connect(db_url) as holder:
            holder.execute("select trunkline.log_publish('t', 'held')")
            first = asyncio.ensure_future(tl.publish("t", b"first"))
            await asyncio.wait([first], timeout=settings.deadline_s * 0.75)
            second = asyncio.ensure_future(tl.publish("t", b"second"))
            with pytest.raises((DeadlineExceeded, OutcomeUnknown)):
                await first
            holder.rollback()
        at = await second
        assert (await tl.read("t", offset=at.offset))[0].payload == b"second"


def test_a_publish_that_finds_its_segment_full_does_not_wait_long_for_the_roll(db_url: str) -> None:
    """Somebody holds the topic's lock, so that the segment cannot be rolled now. The record is in the log: its publish
    returns by its deadline, and the segment is rolled when a later one finds it full."""
    small = TopicSettings(segment_bytes=65536)
    settings = ClientSettings(deadline_s=2.0)
    with trunkline.connect(db_url, settings=settings) as tl, psycopg.connect(db_url) as holder:
        topic = tl.create_topic("t", settings=small)
        tl.publish_many("t", [random.randbytes(500) for _ in range(250)])
        holder.execute("select trunkline.topic_lock(%s)", [topic.topic_id])
        with own_time() as took:
            tl.publish_many("t", [random.randbytes(500) for _ in range(10)])
        assert took() < settings.deadline_s + 1
        holder.rollback()
        tl.publish_many("t", [random.randbytes(500) for _ in range(260)])
        wait_until(lambda: tl.topic("t").open_segment_id > topic.open_segment_id, "the topic has rolled")


async def _cancelled_publish(
    tl: trunkline.aio.AsyncClient, payload: bytes, chance: random.Random, now: Callable[[], float]
) -> int | None:
    """Publish, and cancel it at some moment; the offset where it came first."""
    task = asyncio.ensure_future(tl.publish("t", payload))
    for _ in range(chance.randrange(6)):
        await asyncio.sleep(0)
    if chance.random() < 0.7:
        await asyncio.wait([task], timeout=chance.random() * 0.004)
    begun = now()
    task.cancel()
    try:
        return (await task).offset
    except asyncio.CancelledError:
        assert now() - begun < 1, "a cancelled call returns at once"
        return None


@pytest.mark.parametrize("rounds", [100, pytest.param(3000, marks=pytest.mark.chaos)])
async def test_publishes_that_are_cancelled_near_commit_leave_no_duplicate_and_no_stuck_lane(
    db_url: str, seed: int, rounds: int
) -> None:
    """Publishes, several at a time on one client, are cancelled at random moments around their commit. Each is in
    the log once or not at all; those that returned are there; what is published next is not held up."""
    chance = random.Random(seed)
    recorder = Recorder()
    with own_time() as now:
        async with trunkline.aio.connect(db_url) as tl:
            await tl.create_topic("t")
            for number in range(rounds):
                payloads = [b"%d.%d" % (number, caller) for caller in range(chance.choice([1, 1, 3]))]
                invoked = recorder.tick()
                offsets = await asyncio.gather(*(_cancelled_publish(tl, payload, chance, now) for payload in payloads))
                for payload, offset in zip(payloads, offsets, strict=True):
                    if offset is None:
                        recorder.unknown("w", [Sent(payload)], invoked)
                    else:
                        recorder.published("w", [Sent(payload)], invoked, [(0, offset)])
                if number % 10 == 0:
                    async with asyncio.timeout(WAIT_S):
                        at = await tl.publish("t", b"%d.after" % number)
                    recorder.published("w", [Sent(b"%d.after" % number)], recorder.tick(), [(0, at.offset)])
    history = recorder.finish(whole_log(db_url, "t"))
    unknown = {event.records[0].payload for event in history.publishes() if event.outcome == "unknown"}
    written = {record.payload for record in history.final[0].records}
    print(f"{len(unknown)} cancelled, {len(unknown & written)} of them had committed")
    assert_clean(history)
    assert unknown & written
    assert unknown - written


async def test_a_caller_cancelled_in_the_tick_that_would_let_it_lead_does_not_stop_the_lane(db_url: str) -> None:
    """B stands in line behind A. B is cancelled in the very step of the event loop in which A's commit returns and B
    would be told to lead: the next caller leads instead."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("t")
        await tl.publish("t", b"before")
        appender = tl._lane("t")._appender
        append = appender.append
        following: list[asyncio.Task[object]] = []

        async def append_then_cancel(*args: object, **kwargs: object) -> object:
            following.append(asyncio.ensure_future(tl.publish("t", b"b")))
            answer = await append(*args, **kwargs)  # type: ignore[arg-type]
            following[0].cancel()
            return answer

        appender.append = append_then_cancel  # type: ignore[method-assign, assignment]
        assert (await tl.publish("t", b"a")).offset == 2
        appender.append = append  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await following[0]
        async with asyncio.timeout(WAIT_S):
            assert (await tl.publish("t", b"c")).offset == 3


async def test_a_cancelled_wait_for_a_connection_wakes_the_next_in_line(db_url: str) -> None:
    """All connections are lent; A and B wait for one. A is cancelled in the step in which a connection comes back for
    it: B gets it."""
    async with trunkline.aio.connect(db_url, settings=ClientSettings(connections_max=1)) as tl:
        pool, deadline = tl._pool, time.monotonic() + WAIT_S

        async def borrow() -> None:
            async with pool.connection(deadline):
                pass

        async with pool.connection(deadline):
            a, b = asyncio.ensure_future(borrow()), asyncio.ensure_future(borrow())
            await asyncio.sleep(0)
            a.cancel()
        async with asyncio.timeout(WAIT_S):
            await b
        with pytest.raises(asyncio.CancelledError):
            await a


def test_a_failed_delete_does_not_make_the_producer_forget_its_numbers(db_url: str) -> None:
    """Deleting the topic fails because a transaction holds a partition. What is published afterwards is new, and is not
    taken for the producer's first record again."""
    settings = ClientSettings(deadline_s=2, lock_timeout_s=0.1)
    with trunkline.connect(db_url, settings=settings) as tl, psycopg.connect(db_url) as holder:
        tl.create_topic("t")
        assert tl.publish("t", b"first").offset == 1
        holder.execute("select trunkline.log_publish('t', 'held')")
        with pytest.raises(TrunklineError):
            tl.delete_topic("t")
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        wait_until(lambda: holder.execute(waiting).fetchone() == (0,), "the last attempt has ended on the server")
        holder.rollback()
        assert tl.publish("t", b"second").offset == 2
        assert [record.payload for record in tl.read("t")] == [b"first", b"second"]


def test_a_topic_made_again_by_another_client_is_found_by_writers_and_readers(db_url: str) -> None:
    """A client that knows a topic by an older incarnation publishes to, and reads from, the one there is now; a
    partition that the new one has not is NotFound, in time."""
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as other:
        for partitions in (2, 2, 1):
            other.create_topic("t", partitions=partitions)
            both = [Message(b"x", partition=number) for number in range(partitions)]
            assert {at.offset for at in tl.publish_many("t", both)} == {1}
            assert tl.publish("t", b"y", partition=0).offset == 2
            assert [record.offset for record in tl.read("t")] == [1, 2]
            assert len(tl.offsets("t")) == partitions
            if partitions == 1:
                with pytest.raises(trunkline.errors.NotFound):
                    tl.read("t", partition=1, offset=1)
            other.delete_topic("t")


def test_a_network_that_comes_back_delivers_nothing_twice(db_url: str, proxied: tuple[Proxy, str]) -> None:
    """The request of a publish is held up in the network; the client has long published it by another connection, and
    more after it, when it arrives: it is recognised."""
    proxy, url = proxied
    proxy.delay_s = 5.0 if proxy.mode == "direct" else 0.2
    with trunkline.connect(url, settings=QUICK) as tl:
        tl.create_topic("t")
        tl.publish("t", b"1")
        proxy.arm(Fault.DELAYED)
        assert [tl.publish("t", b"%d" % number).offset for number in (2, 3, 4)] == [2, 3, 4]
        proxy.deliver_late()
        wait_until(lambda: proxy.late_answers, "the server has answered the late request")
        assert tl.publish("t", b"5").offset == 5
        assert [record.payload for record in tl.read("t")] == [b"1", b"2", b"3", b"4", b"5"]
