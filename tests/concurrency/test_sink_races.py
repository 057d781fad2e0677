"""Sinks beside others: somebody who takes stages away, a batch that arrives late, segments that are sealed. Each order
of events is made, not hoped for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.concurrency.sessions import WAIT_S, Session, Sessions, opened, wait_until
from tests.concurrency.sinks import Sinks


@pytest.fixture
def sinks(make_database: Callable[[], str]) -> Iterator[Sinks]:
    with opened(make_database()) as sessions:
        yield Sinks(sessions)


@pytest.fixture
def sessions(sinks: Sinks) -> Sessions:
    return sinks.sessions


def numbered(count: int) -> list[tuple[int, list[bytes]]]:
    return [(n % 2, [b"%d" % n]) for n in range(count)]


def waits(sessions: Sessions, session: Session) -> None:
    wait_until(lambda: sessions.watcher.is_waiting(session), f"{session.name} waits")


def test_stages_that_are_discarded_while_their_batch_begins_are_kept(sinks: Sinks, sessions: Sessions) -> None:
    """Spark gives a commit up whose answer is late, and aborts: then the commit may still be under way."""
    stage = sinks.stage(numbered(150))
    committer, aborter = sessions.open("committer"), sessions.open("aborter", autocommit=True)
    assert sinks.commit(0, {stage: 150}, session=committer)[0] == "begun"
    discarded = aborter.start("select trunkline.sink_discard(%s::int4[])", [[stage]])
    sessions.watcher.wait_blocked(aborter, committer)
    committer.commit()
    assert discarded.result(WAIT_S) == [(0,)]
    sinks.finish(0)
    assert sinks.read(0) + sinks.read(1) == [b"%d" % n for n in [*range(0, 150, 2), *range(1, 150, 2)]]


def test_a_commit_that_waits_for_a_discard_publishes_nothing(sinks: Sinks, sessions: Sessions) -> None:
    stage = sinks.stage(numbered(150))
    committer, aborter = sessions.open("committer"), sessions.open("aborter")
    assert aborter.run("select trunkline.sink_discard(%s::int4[])", [[stage]]) == [(150,)]
    late = sinks.start_commit(committer, 0, {stage: 150})
    sessions.watcher.wait_blocked(committer, aborter)
    aborter.commit()
    with pytest.raises(psycopg.Error) as caught:
        late.result(WAIT_S)
    assert caught.value.sqlstate == "TL019"
    assert sinks.read(0) == sinks.read(1) == []


@pytest.mark.parametrize("is_rolled", [False, True], ids=["", "after-a-roll"])
@pytest.mark.parametrize("ordinal", [1, 100], ids=["published", "not-yet-published"])
def test_a_batch_that_is_put_late_into_a_stage_under_way_is_not_published_twice(
    sinks: Sinks, ordinal: int, is_rolled: bool
) -> None:
    """A put whose connection was lost is tried again, and the first attempt arrives much later: between two steps."""
    stage = sinks.stage(numbered(150))
    assert sinks.commit(0, {stage: 150})[0] == "begun"
    if is_rolled:
        sinks.roll()
    with pytest.raises(psycopg.Error) as caught:
        sinks.put(stage, ordinal, (ordinal - 1) % 2, [b"%d" % (ordinal - 1)])
    assert caught.value.sqlstate == "TL019"
    sinks.finish(0)
    assert sinks.read(0) == [b"%d" % n for n in range(0, 150, 2)]
    assert sinks.read(1) == [b"%d" % n for n in range(1, 150, 2)]


def test_a_late_put_that_waits_for_the_commit_is_not_published_twice(sinks: Sinks, sessions: Sessions) -> None:
    stage = sinks.stage(numbered(150))
    committer, late = sessions.open("committer"), sessions.open("late", autocommit=True)
    assert sinks.commit(0, {stage: 150}, session=committer)[0] == "begun"
    put = sinks.start_put(late, stage, 1, 0, [b"0"])
    sessions.watcher.wait_blocked(late, committer)
    committer.commit()
    with pytest.raises(psycopg.Error) as caught:
        put.result(WAIT_S)
    assert caught.value.sqlstate == "TL019"
    sinks.finish(0)
    assert len(sinks.read(0)) + len(sinks.read(1)) == 150


def test_a_batch_that_is_put_twice_at_once_on_both_sides_of_a_roll_is_not_published_twice(
    sinks: Sinks, sessions: Sessions
) -> None:
    stage = sinks.stage([(0, [b"0"])])
    early, late = sessions.open("early"), sessions.open("late", autocommit=True)
    sinks.start_put(early, stage, 2, 0, [b"1"]).result(WAIT_S)
    sinks.roll()
    again = sinks.start_put(late, stage, 2, 0, [b"1"])
    sessions.watcher.wait_blocked(late, early)
    early.commit()
    again.result(WAIT_S)
    assert sinks.commit(0, {stage: 2})[0] == "done"
    assert sinks.read(0) == [b"0", b"1"]


def test_a_stage_that_has_one_batch_twice_and_lacks_another_is_refused(sinks: Sinks, sessions: Sessions) -> None:
    """As many records as were reported, and yet not those: a put that was done twice, and one that a crash took."""
    early = sessions.open("early")
    stage = int(early.run("select trunkline.sink_stage_open()")[0][0])
    sinks.start_put(early, stage, 1, 0, [b"0"]).result(WAIT_S)
    sinks.roll()
    sinks.put(stage, 1, 0, [b"0"])
    early.commit()
    with pytest.raises(psycopg.Error) as caught:
        sinks.commit(0, {stage: 2})
    assert caught.value.sqlstate == "TL019"
    assert sinks.read(0) == []


def test_a_step_and_the_sealing_of_its_segment_do_not_wait_for_each_other(sinks: Sinks, sessions: Sessions) -> None:
    """A publisher holds the partition. The sealing comes first, then the step: when he is done both go on."""
    stage = sinks.stage([(0, [b"%d" % n]) for n in range(100)])
    segment = sinks.open_segment()
    sinks.roll()
    holder, sealer, committer = (sessions.open(name) for name in ("holder", "sealer", "committer"))
    holder.run("select trunkline.lock_partition(min(partition_id)) from trunkline.topic_partition")
    sealed = sealer.start("select trunkline.segment_seal(%s::int4)", [segment])
    waits(sessions, sealer)
    begun = sinks.start_commit(committer, 0, {stage: 100})
    waits(sessions, committer)
    holder.commit()
    assert sealed.result(WAIT_S) == [(True,)]
    sealer.commit()
    assert begun.result(WAIT_S)[0][0] == "begun"
    committer.commit()
    sinks.finish(0)
    assert sinks.read(0) == [b"%d" % n for n in range(100)]


def test_two_commits_of_one_batch_at_once_publish_it_once(sinks: Sinks, sessions: Sessions) -> None:
    """The driver that was taken for dead and the one that was started for it: one publishes, the other skips."""
    first, second = sinks.stage(numbered(10)), sinks.stage(numbered(10))
    zombie, driver = sessions.open("zombie"), sessions.open("driver")
    assert sinks.commit(0, {first: 10}, session=zombie, run="run-1")[:2] == ("done", False)
    again = sinks.start_commit(driver, 0, {second: 10}, run="run-2")
    sessions.watcher.wait_blocked(driver, zombie)
    zombie.commit()
    assert again.result(WAIT_S)[0][:2] == ("done", True)
    driver.commit()
    assert len(sinks.read(0)) + len(sinks.read(1)) == 10


def test_a_publisher_that_commits_while_a_sink_waits_for_the_partition_comes_first(
    sinks: Sinks, sessions: Sessions
) -> None:
    """The tip is read after the lock: the sink's records follow those of the publisher for whom it waited."""
    stage = sinks.stage([(0, [b"sink"])])
    publisher, committer = sessions.open("publisher"), sessions.open("committer")
    publisher.append(sinks.topic_id, {0: [b"a", b"b"]}).result(WAIT_S)
    late = sinks.start_commit(committer, 0, {stage: 1})
    sessions.watcher.wait_blocked(committer, publisher)
    publisher.commit()
    assert late.result(WAIT_S)[0][0] == "done"
    committer.commit()
    assert sinks.read(0) == [b"a", b"b", b"sink"]
