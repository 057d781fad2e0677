"""Sinks that are known to be wrong: ours with one promise broken. Each is caught in a scene that our own functions play
without a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
import pytest

from tests.concurrency.conftest import StartServer
from tests.concurrency.sessions import WAIT_S, Session, opened, wait_until
from tests.concurrency.sinks import Answer, Batches, Sinks
from tests.mutants.mutants import NOBODY_FLUSHES, install_changes, stop_wal_writer
from trunkline.server import Server

SinkScene = Callable[[Sinks], set[str]]


def numbered(count: int) -> Batches:
    return [(0, [b"%d" % n]) for n in range(count)]


def stored(sinks: Sinks) -> list[bytes]:
    """What partition 0 has, straight from the tables: a reader might refuse to show what is wrong."""
    found: list[tuple[int, list[bytes]]] = []
    for (segment,) in sinks.admin.run("select segment_id from trunkline.segment order by 1"):
        table = f"trunkline.segment_{segment}"
        found += sinks.admin.run(f"select first_offset, payloads from {table} where partition = 0 and record_count > 0")
    return [payload for _, payloads in sorted(found) for payload in payloads]


def faults(sinks: Sinks, expected: Sequence[bytes]) -> set[str]:
    found = stored(sinks)
    names = {"duplicate"} if len(found) != len(set(found)) else set()
    names |= {"lost"} if set(expected) - set(found) else set()
    names |= {"foreign"} if set(found) - set(expected) else set()
    return names or ({"order"} if found != list(expected) else set())


def refused(answer: Callable[[], object]) -> str | None:
    """The code with which the server refuses it; None where it does not."""
    try:
        answer()
    except psycopg.Error as error:
        return error.sqlstate
    return None


def ended(session: Session, answer: Answer) -> set[str]:
    """Wait for a call and commit it; an error is a finding."""
    code = refused(lambda: answer.result(WAIT_S))
    session.commit() if code is None else session.rollback()
    return {f"error {code}"} if code else set()


def batch_again(sinks: Sinks) -> set[str]:
    """A batch is committed again by a later run, as after a crash."""
    sinks.commit(0, {sinks.stage(numbered(2)): 2})
    sinks.commit(0, {sinks.stage(numbered(2)): 2}, run="run-2")
    return faults(sinks, [b"0", b"1"])


def zombie_driver(sinks: Sinks) -> set[str]:
    """Two drivers commit one batch at the same time, which is not the first of the query."""
    sinks.commit(0, {})
    first, second = sinks.stage(numbered(2)), sinks.stage(numbered(2))
    zombie, driver = sinks.sessions.open("zombie"), sinks.sessions.open("driver")
    sinks.commit(1, {first: 2}, session=zombie)
    again = sinks.start_commit(driver, 1, {second: 2}, run="run-2")
    sinks.sessions.watcher.wait_blocked(driver, zombie)
    zombie.commit()
    return ended(driver, again) | faults(sinks, [b"0", b"1"])


def rewound(sinks: Sinks) -> set[str]:
    """A later run comes with a batch that lies far behind, and with another content."""
    for batch in range(3):
        sinks.commit(batch, {sinks.stage([(0, [b"%d" % batch])]): 1})
    code = refused(lambda: sinks.commit(0, {sinks.stage([(0, [b"new"])]): 1}, run="run-2"))
    return (set() if code == "TL018" else {"skipped in silence"}) | faults(sinks, [b"0", b"1", b"2"])


def two_writes_of_one_name(sinks: Sinks) -> set[str]:
    sinks.commit(0, {sinks.stage([(0, [b"a"])]): 1})
    code = refused(lambda: sinks.commit(0, {sinks.stage([(0, [b"b"])]): 1}))
    return set() if code == "TL001" else {"skipped in silence"}


def batch_left_unfinished(sinks: Sinks) -> set[str]:
    """The next batch comes before the last one is done."""
    sinks.commit(0, {sinks.stage(numbered(100)): 100})
    refused(lambda: sinks.commit(1, {sinks.stage([(0, [b"next"])]): 1}))
    sinks.finish(0)
    return faults(sinks, [b"%d" % n for n in range(100)])


def crash_takes_a_put(sinks: Sinks) -> set[str]:
    """One of two batches of a stage is gone, as a crash may leave it."""
    stage = sinks.stage(numbered(2))
    table = f"trunkline.segment_{sinks.open_segment()}"
    sinks.admin.run(f"delete from {table} where partition = -%s and first_offset = 2", [stage])
    code = refused(lambda: sinks.commit(0, {stage: 2}))
    return set() if code == "TL019" else faults(sinks, [b"0", b"1"])


def publisher_in_between(sinks: Sinks) -> set[str]:
    """A sink waits for the partition while a publisher commits there."""
    stage = sinks.stage([(0, [b"sink"])])
    publisher, committer = sinks.sessions.open("publisher"), sinks.sessions.open("committer")
    publisher.append(sinks.topic_id, {0: [b"a", b"b"]}).result(WAIT_S)
    late = sinks.start_commit(committer, 0, {stage: 1})
    wait_until(lambda: sinks.sessions.watcher.is_waiting(committer), "the sink waits")
    publisher.commit()
    return ended(committer, late) | faults(sinks, [b"a", b"b", b"sink"])


def discard_under_way(sinks: Sinks) -> set[str]:
    """Stages are discarded between two steps."""
    stage = sinks.stage(numbered(100))
    sinks.commit(0, {stage: 100})
    sinks.discard(stage)
    sinks.finish(0)
    return faults(sinks, [b"%d" % n for n in range(100)])


def discard_meets_commit(sinks: Sinks) -> set[str]:
    """Stages are discarded while the first step is under way."""
    stage = sinks.stage(numbered(100))
    committer, aborter = sinks.sessions.open("committer"), sinks.sessions.open("aborter")
    sinks.commit(0, {stage: 100}, session=committer)
    discarded = aborter.start("select trunkline.sink_discard(%s::int4[])", [[stage]])
    sinks.sessions.watcher.wait_blocked(aborter, committer)
    committer.commit()
    found = ended(aborter, discarded)
    sinks.finish(0)
    return found | faults(sinks, [b"%d" % n for n in range(100)])


def late_put(sinks: Sinks) -> set[str]:
    """A put that was repeated long ago arrives between two steps."""
    stage = sinks.stage(numbered(100))
    sinks.commit(0, {stage: 100})
    refused(lambda: sinks.put(stage, 1, 0, [b"0"]))
    sinks.finish(0)
    return faults(sinks, [b"%d" % n for n in range(100)])


def put_on_both_sides_of_a_roll(sinks: Sinks) -> set[str]:
    """The first batch of a stage is put twice at once, before and after a roll, and the second is lost in a crash."""
    early = sinks.sessions.open("early")
    stage = int(early.run("select trunkline.sink_stage_open()")[0][0])
    sinks.start_put(early, stage, 1, 0, [b"0"]).result(WAIT_S)
    sinks.roll()
    sinks.put(stage, 1, 0, [b"0"])
    early.commit()
    code = refused(lambda: sinks.commit(0, {stage: 2}))
    return set() if code == "TL019" else faults(sinks, [b"0", b"1"])


def put_again_after_a_roll(sinks: Sinks) -> set[str]:
    """The answer of a put is lost, and it is repeated when the topic has a newer segment."""
    stage = sinks.stage(numbered(2))
    sinks.roll()
    sinks.put(stage, 2, 0, [b"1"])
    code = refused(lambda: sinks.commit(0, {stage: 2}))
    return {f"error {code}"} if code else faults(sinks, [b"0", b"1"])


def sealing_meets_step(sinks: Sinks) -> set[str]:
    """A publisher holds the partition; the sealing of the stage's segment waits for it, then the first step does."""
    stage, segment = sinks.stage(numbered(100)), sinks.open_segment()
    sinks.roll()
    holder, sealer, committer = (sinks.sessions.open(name) for name in ("holder", "sealer", "committer"))
    holder.run("select trunkline.lock_partition(min(partition_id)) from trunkline.topic_partition")
    sealed = sealer.start("select trunkline.segment_seal(%s::int4)", [segment])
    wait_until(lambda: sinks.sessions.watcher.is_waiting(sealer), "the sealing waits")
    begun = sinks.start_commit(committer, 0, {stage: 100})
    wait_until(lambda: sinks.sessions.watcher.is_waiting(committer), "the step waits")
    holder.commit()
    return ended(sealer, sealed) | ended(committer, begun)


def retention_meets_batch(sinks: Sinks) -> set[str]:
    """Retention wants a segment in which a batch has published one half, and has staged the other."""
    stage, segment = sinks.stage(numbered(100)), sinks.open_segment()
    sinks.commit(0, {stage: 100})
    sinks.admin.run("update trunkline.topic set retention_bytes = 0")
    sinks.roll()
    sinks.admin.run("select trunkline.segment_seal(%s::int4)", [segment])
    for (released,) in sinks.admin.run("select segment_id from trunkline.retention_release(%s)", [sinks.topic_id]):
        sinks.admin.run("select trunkline.segment_drop(%s::int4)", [released])
    code = refused(lambda: sinks.finish(0))
    return {f"error {code}"} if code else set()


def several_stages(sinks: Sinks) -> set[str]:
    """The task that comes first has the higher number of a stage; one of them goes over a roll."""
    later, first = sinks.stage([(0, [b"2"]), (0, [b"3"])]), sinks.stage([(0, [b"0"])])
    sinks.roll()
    sinks.put(first, 2, 0, [b"1"])
    sinks.commit(0, {first: 2, later: 2})
    return faults(sinks, [b"%d" % n for n in range(4)])


@dataclass(frozen=True)
class SinkMutant:
    """What is changed, in which scene it shows, and as what. ``changes``: function, text in it, text instead."""

    name: str
    scene: SinkScene
    caught_as: set[str]
    changes: Sequence[tuple[str, str, str]]
    statements: Sequence[str] = ()


NO_LOCK = (
    ("sink_commit", "perform trunkline.lock_sink(sink_no);", ""),
    ("sink_step", "perform trunkline.lock_sink(sink_no);", ""),
)
NO_KEY = ("alter table trunkline.sink_ledger drop constraint sink_ledger_pkey",)
STAGES_FREE = (
    "perform from trunkline.sink_stage s where s.stage_no = any (stage_nos)"
    " order by s.stage_no, s.segment_id for update;"
)
UNDER_WAY = (
    "and not exists (select from trunkline.sink_ledger l"
    " where l.kind = 'b' and s.stage_no = any (l.stage_nos) and not exists (select from trunkline.sink_ledger d"
    " where d.sink_no = l.sink_no and d.batch_id = l.batch_id and d.kind = 'd'))"
)
BLIND_PUT = ("sink_put", "s.segment_id <> place.open_segment_id loop", "false loop")

MUTANTS = [
    SinkMutant(
        "a commit that does not look into the ledger",
        batch_again,
        {"duplicate"},
        [
            ("sink_commit", "and l.batch_id = sink_commit.batch_id;", "and false;"),
            ("sink_step", "if begun.is_done then", "if false then"),
            ("sink_step", "and l.kind = 'b';", "and l.kind = 'b' order by l.seq desc limit 1;"),
        ],
    ),
    SinkMutant("a ledger that is read without the sink's lock", zombie_driver, {"error 23505"}, NO_LOCK),
    SinkMutant("the same, and nothing that tells two rows of it apart", zombie_driver, {"duplicate"}, NO_LOCK, NO_KEY),
    SinkMutant(
        "a batch far behind that is taken for done",
        rewound,
        {"skipped in silence"},
        [("sink_commit", "if batch_id < newest.batch_id - 1 or exists", "if exists")],
    ),
    SinkMutant(
        "a second write of one name that is taken for the first",
        two_writes_of_one_name,
        {"skipped in silence"},
        [("sink_commit", "elsif known.is_done and not known.is_same then", "elsif false then")],
    ),
    SinkMutant(
        "a batch that does not wait for the end of the last",
        batch_left_unfinished,
        {"foreign"},
        [("sink_check_new", "elsif newest_batch_id is not null and", "elsif false and")],
    ),
    SinkMutant(
        "stages that nobody counts",
        crash_takes_a_put,
        {"lost"},
        [("sink_commit", "perform trunkline.sink_check_staged(stage_nos, record_counts);", "")],
    ),
    SinkMutant(
        "a tip that is read before the lock",
        publisher_in_between,
        {"error 23505"},
        [
            ("sink_step", "perform trunkline.lock_partition(part.partition_id);", ""),
            (
                "sink_publish",
                "begin for place in",
                "begin perform trunkline.lock_partition(partition_id); for place in",
            ),
        ],
    ),
    SinkMutant(
        "a discard that takes what is under way", discard_under_way, {"lost"}, [("sink_discard", UNDER_WAY, "")]
    ),
    SinkMutant(
        "a discard that looks and does not lock",
        discard_meets_commit,
        {"lost"},
        [("sink_discard", STAGES_FREE, ""), ("sink_check_staged", STAGES_FREE, "")],
    ),
    SinkMutant(
        "a discard that locks in the statement that looks",
        discard_meets_commit,
        {"lost"},
        [("sink_discard", STAGES_FREE, "")],
    ),
    SinkMutant(
        "a stage that is not closed while it is published",
        late_put,
        {"duplicate"},
        [("sink_put", "if other.segment_id = 0 then", "continue when other.segment_id = 0; if false then")],
    ),
    SinkMutant("a put that looks into the newest segment alone", put_again_after_a_roll, {"error TL019"}, [BLIND_PUT]),
    SinkMutant(
        "records that are counted and not told apart",
        put_on_both_sides_of_a_roll,
        {"duplicate", "lost"},
        [("sink_check_staged", "if cardinality(stage.segment_ids) > 1", "if false")],
    ),
    SinkMutant(
        "segments that are held before the partitions",
        sealing_meets_step,
        {"error 40P01"},
        [
            (
                "sink_step",
                "for part in select distinct",
                "perform trunkline.sink_keep(begun.stage_nos); for part in select distinct",
            )
        ],
    ),
    SinkMutant(
        "retention that knows nothing of sinks",
        retention_meets_batch,
        {"error TL019"},
        [("retention_release", "exit when trunkline.segment_is_awaited(segment.segment_id);", "")],
    ),
    SinkMutant(
        "offsets that are given in any order",
        several_stages,
        {"order"},
        [("sink_publish", "over (order by s.at)", "over (order by s.at desc)")],
    ),
    SinkMutant(
        "stages in the order of their numbers",
        several_stages,
        {"order"},
        [("sink_staged", "order by u.at, s.segment_id loop", "order by u.stage_no, s.segment_id loop")],
    ),
]
SCENES = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


def _played(url: str, scene: SinkScene) -> set[str]:
    with opened(url) as sessions:
        return scene(Sinks(sessions))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_is_caught(make_database: Callable[[], str], mutant: SinkMutant) -> None:
    url = make_database()
    install_changes(url, mutant.changes, mutant.statements)
    assert mutant.caught_as <= _played(url, mutant.scene)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_sinks_play_the_same_scene_and_are_clean(make_database: Callable[[], str], scene: SinkScene) -> None:
    assert _played(make_database(), scene) == set()


def _stage_after_crash(server: Server) -> tuple[int, int]:
    """The number of a stage that was handed to a session that commits asynchronously, and that of the next one after
    kill -9 of the server."""
    with opened(server.url) as sessions:
        task = sessions.open("task", autocommit=True)
        task.run("set synchronous_commit = off")
        stop_wal_writer(task)
        # The server writes numbers down ahead, 32 at a time: up to where it has to write again.
        while task.run("select log_cnt from trunkline.sink_stage_no")[0][0]:
            task.run("select trunkline.sink_stage_open()")
        before = task.run("select trunkline.sink_stage_open()")[0][0]
        server.kill()
    server.restart()
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute("select trunkline.sink_stage_open()").fetchone()
    assert row is not None
    return before, row[0]


def test_a_stage_number_that_is_not_flushed_is_given_out_twice(start_server: StartServer) -> None:
    """Two tasks would put their batches into one stage. With the flush it cannot happen."""
    server = start_server(NOBODY_FLUSHES)
    before, after = _stage_after_crash(server)
    assert after > before
    install_changes(server.url, [("sink_stage_open", "perform trunkline.log_guard_commit();", "")])
    before, after = _stage_after_crash(server)
    assert after <= before
