"""The SQL functions of sinks: a batch that was staged is published once, in order, whoever asks again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import trunkline
from trunkline import TopicSettings

Connection = psycopg.Connection[tuple[Any, ...]]
PUT = "select trunkline.sink_put(%s::int4, %s, %s::int4, %s::int4, %s::int4, %s::int4, %s, %s, null, null, null)"
COMMIT = (
    "select state, was_known, full_segments from trunkline.sink_commit(%s, %s, true, %s, %s, %s::int4[], %s::int8[])"
)


class Sinks:
    """A topic of two partitions, and calls of the functions as Spark's side makes them."""

    def __init__(self, connection: Connection, url: str) -> None:
        self.connection = connection
        self.url = url
        with trunkline.connect(url) as tl:
            self.topic_id = tl.create_topic("t", partitions=2, settings=TopicSettings(segment_bytes=65536)).topic_id

    def one(self, statement: str, *parameters: object) -> Any:
        row = self.connection.execute(statement, parameters).fetchone()
        assert row is not None
        return row[0] if len(row) == 1 else row

    def stage(self, *batches: tuple[int, list[bytes]]) -> int:
        number: int = self.one("select trunkline.sink_stage_open()")
        for ordinal, (partition, payloads) in enumerate(batches, start=1):
            self.put(number, ordinal, partition, payloads)
        return number

    def put(self, stage_no: int, ordinal: int, partition: int, payloads: list[bytes]) -> None:
        self.one(PUT, stage_no, ordinal, self.topic_id, 2, partition, len(payloads), None, payloads)

    def commit(self, batch_id: int, stages: dict[int, int], *, run: str = "run-1", query: str = "q") -> Any:
        return self.one(COMMIT, query, "s", batch_id, run, list(stages), list(stages.values()))

    def read(self, partition: int) -> list[bytes]:
        with trunkline.connect(self.url) as tl:
            return [record.payload for record in tl.read("t", partition=partition, max_records=10_000)]

    def roll(self) -> None:
        """Let the topic have a newer segment."""
        with trunkline.connect(self.url) as tl:
            self.one("select trunkline.segment_roll(%s::int4)", tl.topic("t").open_segment_id)


@pytest.fixture
def sinks(db_url: str) -> Iterator[Sinks]:
    with psycopg.connect(db_url, autocommit=True) as connection:
        yield Sinks(connection, db_url)


@contextmanager
def refused(code: str) -> Iterator[None]:
    """The server raises an error with that code."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    assert caught.value.sqlstate == code


def test_what_is_staged_is_read_by_nobody_until_it_is_published(sinks: Sinks) -> None:
    stage = sinks.stage((0, [b"a", b"b"]), (1, [b"c"]), (0, [b"d"]))
    assert sinks.read(0) == []
    assert sinks.commit(0, {stage: 4}) == ("done", False, None)
    assert sinks.read(0) == [b"a", b"b", b"d"]
    assert sinks.read(1) == [b"c"]


def test_offsets_follow_what_others_published_meanwhile(sinks: Sinks) -> None:
    with trunkline.connect(sinks.url) as tl:
        tl.publish("t", b"before", partition=0)
        stage = sinks.stage((0, [b"staged"]))
        tl.publish("t", b"between", partition=0)
        sinks.commit(0, {stage: 1})
        tl.publish("t", b"after", partition=0)
        found = tl.read("t", partition=0)
    assert [(record.offset, record.payload) for record in found] == [
        (1, b"before"),
        (2, b"between"),
        (3, b"staged"),
        (4, b"after"),
    ]
    assert [record.append_time for record in found] == sorted(record.append_time for record in found)


def test_a_batch_that_is_committed_again_is_skipped(sinks: Sinks) -> None:
    sinks.commit(0, {sinks.stage((0, [b"a"])): 1})
    again = sinks.stage((0, [b"a"]))
    assert sinks.commit(0, {again: 1}, run="run-2") == ("done", True, None)
    assert sinks.commit(0, {again: 1}, run="run-2") == ("done", True, None), "also when its own answer was lost"
    assert sinks.read(0) == [b"a"]
    assert sinks.one("select trunkline.sink_discard(%s::int4[])", [again]) == 1


def test_the_same_commit_asked_twice_by_one_run_is_done_once(sinks: Sinks) -> None:
    stage = sinks.stage((0, [b"a"]))
    assert sinks.commit(0, {stage: 1})[:2] == ("done", False)
    assert sinks.commit(0, {stage: 1})[:2] == ("done", True)
    assert sinks.read(0) == [b"a"]


def test_SP_04_a_second_write_of_one_name_in_one_batch_is_refused_and_not_skipped(sinks: Sinks) -> None:
    first, second = sinks.stage((0, [b"a"])), sinks.stage((0, [b"b"]))
    sinks.commit(0, {first: 1})
    with refused("TL001"):
        sinks.commit(0, {second: 1})
    assert sinks.commit(0, {first: 1})[:2] == ("done", True), "the same call again is not a second write"
    again, other = sinks.stage((0, [b"a"])), sinks.stage((0, [b"b"]))
    assert sinks.commit(0, {again: 1}, run="run-2")[:2] == ("done", True)
    with refused("TL001"):
        sinks.commit(0, {other: 1}, run="run-2")
    assert sinks.read(0) == [b"a"]


def test_several_stages_keep_their_order_within_a_partition(sinks: Sinks) -> None:
    later = sinks.stage((0, [b"3"]), (0, [b"4"]))
    first = sinks.stage((0, [b"1"]), (0, [b"2"]))
    sinks.commit(0, {first: 2, later: 2})
    assert sinks.read(0) == [b"1", b"2", b"3", b"4"]


def test_a_large_batch_goes_in_steps_and_a_later_run_finishes_it_with_what_was_staged_first(sinks: Sinks) -> None:
    stage = sinks.stage(*((n % 2, [b"%d" % n]) for n in range(150)))
    assert sinks.commit(0, {stage: 150})[0] == "begun"
    assert len(sinks.read(0)) + len(sinks.read(1)) == 64
    again = sinks.stage(*((n % 2, [b"x%d" % n]) for n in range(150)))
    assert sinks.commit(0, {again: 150}, run="run-2")[:2] == ("begun", False)
    number = sinks.one("select sink_no from trunkline.sink")
    assert sinks.one("select state from trunkline.sink_step(%s::int4, 0)", number) == "done"
    assert sinks.one("select state from trunkline.sink_step(%s::int4, 0)", number) == "done"
    assert sinks.read(0) == [b"%d" % n for n in range(0, 150, 2)]
    assert sinks.read(1) == [b"%d" % n for n in range(1, 150, 2)]


def test_the_stages_of_a_batch_under_way_cannot_be_discarded(sinks: Sinks) -> None:
    stage = sinks.stage(*((0, [b"%d" % n]) for n in range(100)))
    assert sinks.commit(0, {stage: 100})[0] == "begun"
    assert sinks.one("select trunkline.sink_discard(%s::int4[])", [stage]) == 0
    number = sinks.one("select sink_no from trunkline.sink")
    assert sinks.one("select state from trunkline.sink_step(%s::int4, 0)", number) == "done"
    assert len(sinks.read(0)) == 100


def test_a_stage_that_is_not_complete_publishes_nothing(sinks: Sinks) -> None:
    stage = sinks.stage((0, [b"a"]))
    with refused("TL019"):
        sinks.commit(0, {stage: 2})
    with refused("TL019"):
        sinks.commit(0, {stage: 1, 999: 1})
    assert sinks.read(0) == []
    assert sinks.commit(0, {stage: 1})[0] == "done"


def test_SP_05_a_rewound_checkpoint_is_refused(sinks: Sinks) -> None:
    for batch in range(3):
        sinks.commit(batch, {sinks.stage((0, [b"%d" % batch])): 1})
    stage = sinks.stage((0, [b"again"]))
    with refused("TL018"):
        sinks.commit(0, {stage: 1}, run="run-2")
    assert sinks.commit(1, {stage: 1}, run="run-3")[1] is True, "the last but one may be repeated by a new run"
    assert sinks.read(0) == [b"0", b"1", b"2"]


def test_SP_05_a_batch_that_has_another_number_of_records_than_before_is_another_batch(sinks: Sinks) -> None:
    sinks.commit(0, {sinks.stage((0, [b"0"])): 1}, run="run-1")
    stage = sinks.stage((0, [b"0", b"1"]))
    with refused("TL018"):
        sinks.commit(0, {stage: 2}, run="run-2")
    skipped = "select was_known from trunkline.sink_commit('q', 's', true, 0, 'run-3', %s::int4[], '{2}', false)"
    assert sinks.one(skipped, [stage]) is True, "as a query asks that is not the same each time"
    assert sinks.read(0) == [b"0"]


def test_SP_05_two_drivers_on_copies_of_one_checkpoint_do_not_skip_each_others_batches(sinks: Sinks) -> None:
    sinks.commit(0, {sinks.stage((0, [b"0"])): 1}, run="run-1")
    sinks.commit(1, {sinks.stage((0, [b"1 of the copy"])): 1}, run="run-2")
    stage = sinks.stage((0, [b"1"]))
    with refused("TL018"):
        sinks.commit(1, {stage: 1}, run="run-1")
    assert sinks.read(0) == [b"0", b"1 of the copy"]


def test_a_batch_after_one_that_was_not_finished_is_refused(sinks: Sinks) -> None:
    sinks.commit(0, {sinks.stage(*((0, [b"x"]) for _ in range(100))): 100})
    stage = sinks.stage((0, [b"next"]))
    with refused("TL018"):
        sinks.commit(1, {stage: 1})


def test_a_batch_under_way_is_still_the_newest_when_a_later_run_has_met_an_older_one(sinks: Sinks) -> None:
    sinks.commit(0, {sinks.stage((0, [b"first"])): 1})
    begun = sinks.stage(*((0, [b"%d" % n]) for n in range(100)))
    assert sinks.commit(1, {begun: 100})[0] == "begun"
    assert sinks.commit(0, {sinks.stage((0, [b"first"])): 1}, run="run-2")[1] is True
    with refused("TL018"):
        sinks.commit(2, {sinks.stage((0, [b"next"])): 1}, run="run-3")
    segment = sinks.one("select min(segment_id) from trunkline.segment")
    assert sinks.one("select trunkline.segment_is_awaited(%s)", segment) is True
    assert sinks.commit(1, {sinks.stage(*((0, [b"x"]) for _ in range(100))): 100}, run="run-4")[0] == "done"
    assert sinks.one("select trunkline.segment_is_awaited(%s)", segment) is False
    assert sinks.read(0) == [b"first", *(b"%d" % n for n in range(100))]


def test_sinks_of_one_query_do_not_meet(sinks: Sinks) -> None:
    sinks.commit(0, {sinks.stage((0, [b"a"])): 1}, query="one")
    sinks.commit(0, {sinks.stage((0, [b"b"])): 1}, query="two")
    assert sinks.read(0) == [b"a", b"b"]


def test_what_lies_in_an_older_segment_is_published_to_the_newest(sinks: Sinks) -> None:
    stage = sinks.one("select trunkline.sink_stage_open()")
    sinks.put(stage, 1, 0, [b"old"])
    sinks.roll()
    sinks.put(stage, 2, 0, [b"new"])
    sinks.put(stage, 3, 1, [b"other"])
    assert sinks.commit(0, {stage: 3})[0] == "done"
    assert sinks.read(0) == [b"old", b"new"]
    assert sinks.read(1) == [b"other"]


def test_putting_a_batch_twice_is_putting_it_once(sinks: Sinks) -> None:
    stage = sinks.stage((0, [b"a"]))
    sinks.put(stage, 1, 0, [b"a"])
    assert sinks.commit(0, {stage: 1})[0] == "done"
    assert sinks.read(0) == [b"a"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("0, 1, {t}, 2, 0, 1, null, '{{a}}'", "TL001"),
        ("null, 1, {t}, 2, 0, 1, null, '{{a}}'", "TL001"),
        ("1, 0, {t}, 2, 0, 1, null, '{{a}}'", "TL001"),
        ("1, 1, 999, 2, 0, 1, null, '{{a}}'", "TL002"),
        ("1, 1, {t}, 2, 2, 1, null, '{{a}}'", "TL002"),
        ("1, 1, {t}, 2, -1, 1, null, '{{a}}'", "TL002"),
        ("1, 1, {t}, 3, 0, 1, null, '{{a}}'", "TL012"),
        ("1, 1, {t}, 2, 0, 2, null, '{{a}}'", "TL001"),
        ("1, 1, {t}, 2, 0, 1, null, '{{null}}'", "TL001"),
        ("1, 1, {t}, 2, 0, 1, '{{a,b}}', '{{a}}'", "TL001"),
        ("1, 1, {t}, 2, 0, 1, array[repeat('k', 9000)::bytea], '{{a}}'", "TL004"),
        ("1, 1, {t}, 2, 0, 1, null, array[repeat('p', 20000000)::bytea]", "TL004"),
    ],
)
def test_what_cannot_be_published_is_refused_when_it_is_staged(sinks: Sinks, arguments: str, code: str) -> None:
    with refused(code):
        sinks.connection.execute(f"select trunkline.sink_put({arguments.format(t=sinks.topic_id)}, null, null, null)")
    assert sinks.one("select count(*) from trunkline.sink_stage") == 0


def test_a_topic_deleted_between_staging_and_commit_is_an_error(sinks: Sinks) -> None:
    stage = sinks.stage((0, [b"a"]))
    with trunkline.connect(sinks.url) as tl:
        tl.delete_topic("t")
    with refused("TL019"):
        sinks.commit(0, {stage: 1})


def test_retention_leaves_a_segment_alone_while_a_batch_is_halfway_through_it(sinks: Sinks) -> None:
    stage = sinks.stage(*((0, [b"%d" % n]) for n in range(100)))
    assert sinks.commit(0, {stage: 100})[0] == "begun"
    with trunkline.connect(sinks.url) as tl:
        tl.alter_topic("t", retention_bytes=0)
        sinks.roll()
        assert [step.action for step in tl.retention_run("t")] == ["seal"]
        number = sinks.one("select sink_no from trunkline.sink")
        assert sinks.one("select state from trunkline.sink_step(%s::int4, 0)", number) == "done"
        assert [step.action for step in tl.retention_run("t")] == ["release", "drop"]
        found = tl.read("t", partition=0, max_records=1000)
    assert [record.payload for record in found] == [b"%d" % n for n in range(64, 100)], "copied to the newer segment"


def test_the_sweep_takes_old_stages_and_keeps_what_is_needed(sinks: Sinks) -> None:
    published, begun, forgotten, fresh = (sinks.stage(*((0, [b"x"]) for _ in range(70))) for _ in range(4))
    sinks.commit(0, {published: 70}, query="a")
    number = sinks.one("select sink_no from trunkline.sink")
    sinks.one("select state from trunkline.sink_step(%s::int4, 0)", number)
    sinks.commit(0, {begun: 70}, query="b")
    sinks.connection.execute(
        "update trunkline.sink_stage set at = at - %s where stage_no <> %s", [timedelta(days=2), fresh]
    )
    sinks.one("select trunkline.sink_sweep()")
    left = {number for (number,) in sinks.connection.execute("select stage_no from trunkline.sink_stage")}
    assert left == {begun, fresh}
    assert len(sinks.read(0)) == 134
    table = "trunkline.segment_" + str(sinks.one("select min(segment_id) from trunkline.segment"))
    assert sinks.one(f"select count(*) from {table} where partition = -%s", forgotten) == 0


def test_a_put_leaves_the_flush_of_a_transaction_that_has_written_before(sinks: Sinks) -> None:
    publish = "select trunkline.log_publish('t', 'p'::bytea)"
    stage = sinks.one("select trunkline.sink_stage_open()")
    with sinks.connection.transaction():
        sinks.put(stage, 1, 0, [b"a"])
        assert sinks.one("show synchronous_commit") == "off"
        sinks.one(publish)
        assert sinks.one("show synchronous_commit") == "on"
        sinks.put(stage, 2, 0, [b"b"])
        assert sinks.one("show synchronous_commit") == "on"


def test_a_report_shows_a_query_as_a_group(sinks: Sinks) -> None:
    report = "select trunkline.group_report(%s, %s::int4[], %s::int4[], %s::int8[])"
    with trunkline.connect(sinks.url) as tl:
        tl.publish_many("t", [b"a", b"b", b"c"], partition=0)
        sinks.one(report, "spark-q", [sinks.topic_id] * 2, [0, 1], [2, 1])
        assert [(group.name, group.lag) for group in tl.groups()] == [("spark-q", 2)]
        sinks.one(report, "spark-q", [sinks.topic_id], [0], [4])
        assert [group.lag for group in tl.groups()] == [0]
        with tl.consumer("t", group="app", create=True) as consumer:
            consumer.poll(max_records=1)
            with refused("TL016"):
                sinks.one(report, "app", [sinks.topic_id], [0], [1])
    for arguments in (
        ["", [1], [0], [1]],
        ["g", [1], [0], [0]],
        ["g", [1], [0, 1], [1]],
        ["g", [1, 1], [0, 0], [1, 1]],
    ):
        with refused("TL001"):
            sinks.one(report, *arguments)
    with refused("TL002"):
        sinks.one(report, "g", [999], [0], [1])
