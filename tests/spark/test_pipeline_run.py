"""Pipelines on a real Spark: what arrives equals the SQL of the same data, once, whatever was stopped meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import Row, SparkSession

from trunkline import Client, Message
from trunkline.errors import InvalidArgument, NotFound, QueryFailed, TrunklineError
from trunkline.spark.pipeline.file import Pipeline, load
from trunkline.spark.pipeline.progress import BatchDone, Look
from trunkline.spark.pipeline.run import RunSettings, Signals, Started, check_topics, compile_pipeline, run

SOURCE = """\
name: revenue
source:
  topic: orders
  format: json
  schema: {user: string, amount: int, at: timestamp}
"""
NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/none"

Write = Callable[[str], Pipeline]


@dataclass
class Seen:
    """A face that remembers."""

    started: list[Started] = field(default_factory=list)
    batches: list[BatchDone] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    shown: list[tuple[str, int, list[tuple[Any, ...]], bool]] = field(default_factory=list)

    def begin(self, started: Sequence[Started]) -> None:
        self.started = list(started)

    def batch(self, done: BatchDone) -> None:
        self.batches.append(done)

    def look(self, looks: Sequence[Look]) -> None:
        self.looks = list(looks)

    def rows(self, sink: str, batch: int, columns: Sequence[str], rows: Sequence[Row], *, more: bool) -> None:
        self.shown.append((sink, batch, [tuple(row) for row in rows], more))

    def rows_of(self, sink: str) -> int:
        return sum(each.rows for each in self.batches if each.sink == sink)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a pipeline file into a folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    path = Path("revenue.yml")

    def make(text: str) -> Pipeline:
        path.write_text(text, "utf-8")
        return load(path)

    return make


def order(number: int) -> Message:
    body = {"user": f"user-{number % 7}", "amount": number, "at": f"2026-01-01T00:{number % 60:02d}:30Z"}
    return Message(json.dumps(body).encode(), key=str(body["user"]))


@pytest.fixture
def topics(tl: Client) -> Client:
    tl.create_topic("orders", partitions=3)
    tl.create_topic("large", partitions=2)
    tl.publish_many("orders", [order(number) for number in range(300)])
    return tl


def caught_up(spark: SparkSession, pipeline: Pipeline, url: str) -> Seen:
    """Run it until it has read what is there."""
    seen = Seen()
    signals = run(spark, pipeline, RunSettings(url, until_caught_up=True, checkpoints="checkpoints"), seen)
    assert (signals.count, signals.at_once) == (0, False)
    assert all(look.state == "done" for look in seen.looks), seen.looks
    return seen


def payloads(tl: Client, topic: str) -> list[Any]:
    partitions = range(tl.topic(topic).partitions)
    return [json.loads(each.payload) for p in partitions for each in tl.read(topic, partition=p, max_records=100_000)]


def asked(url: str, sql: str) -> list[tuple[Any, ...]]:
    """The same question, of the log itself."""
    with psycopg.connect(url) as connection:
        return connection.execute(sql.encode()).fetchall()


LARGE = """\
select convert_from(r.payload, 'utf8')::json->>'user', (convert_from(r.payload, 'utf8')::json->>'amount')::int * 2
from trunkline.records('orders', max_records => 100000) r
where (convert_from(r.payload, 'utf8')::json->>'amount')::int % 3 = 0"""


def test_topic_to_topic_and_to_parquet_equal_the_sql_of_the_same_data_and_a_restart_repeats_nothing(
    spark: SparkSession, topics: Client, db_url: str, write: Write
) -> None:
    """Both sinks by queries of their own. In between more is published; a third run finds nothing."""
    pipeline = write(
        SOURCE
        + """\
  max_records: 200
steps:
  - name: third
    sql: SELECT user, amount, at FROM input WHERE amount % 3 = 0
  - name: doubled
    sql: |
      SELECT user, amount * 2 AS twice, amount % 2 AS half
      FROM third;
sinks:
  - topic: large
    key: user
    value: [user, twice]
  - parquet: lake
    partition_by: half
"""
    )
    for run_number, published in enumerate((300, 500, 500)):
        if run_number == 1:
            topics.publish_many("orders", [order(number) for number in range(300, 500)])
        seen = caught_up(spark, pipeline, db_url)
        assert [seen.rows_of(each.sink) for each in seen.started] == [[300, 200, 0][run_number]] * 2
        wanted = sorted(asked(db_url, LARGE))
        assert len(wanted) == len(range(0, published, 3))
        assert sorted((each["user"], each["twice"]) for each in payloads(topics, "large")) == wanted
        stored = spark.read.parquet(str(Path("lake").absolute()))
        assert sorted((row.user, row.twice) for row in stored.collect()) == wanted
    assert {each.key for each in topics.read("large", partition=0)} <= {b"user-%d" % n for n in range(7)}
    assert [each.checkpoint for each in seen.started] == [
        str(Path("checkpoints/topic-large").absolute()),
        str(Path("checkpoints/parquet-lake").absolute()),
    ]
    assert [(each.sink, each.group) for each in seen.started] == [
        ("topic-large", "revenue/topic-large"),
        ("parquet-lake", "revenue/parquet-lake"),
    ]
    groups = {group.name for group in topics.groups()}
    assert {"revenue/topic-large", "revenue/parquet-lake"} <= groups
    lag = [each.end - each.cursor for each in topics.describe_group("revenue/topic-large").partitions]
    assert lag == [0, 0, 0]


def test_totals_that_grow_are_published_once_a_batch_and_shown_on_the_console(
    spark: SparkSession, topics: Client, db_url: str, write: Write
) -> None:
    pipeline = write(
        SOURCE
        + """\
steps:
  - name: totals
    sql: SELECT user, sum(amount) AS total, max(at) AS last FROM input GROUP BY user
sinks:
  - topic: large
    key: user
    mode: update
  - console: 3
    mode: complete
"""
    )
    first = caught_up(spark, pipeline, db_url)
    assert len(payloads(topics, "large")) == 7
    ((sink, batch, rows, more),) = first.shown
    assert (sink, batch, len(rows), more) == ("console", 0, 3, True)
    topics.publish_many("orders", [order(number) for number in range(300, 301)])
    caught_up(spark, pipeline, db_url)
    found = payloads(topics, "large")
    assert len(found) == 8
    totals = {each["user"]: each["total"] for each in found}
    assert totals == {f"user-{n}": sum(range(n, 301, 7)) for n in range(7)}
    assert {each["last"][:14] for each in found} == {"2026-01-01T00:"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps:\n  - sql: SELECT usr FROM input\n", "revenue.yml:7: step 1 (step_1), sql: A column"),
        (
            "steps:\n  - name: a\n    sql: |\n      SELECT user,\n        amont\n      FROM input\n",
            ":10: step 1 (a), sql",
        ),
        ("steps:\n  - sql: SELECT * FROM inputs\n", "revenue.yml:7: step 1 (step_1), sql: The table or view `inputs`"),
        ("steps:\n  - sql: |\n      SELECT *\n      FORM input\n", "revenue.yml:9: step 1 (step_1), sql: Syntax error"),
        (
            "steps:\n  - sql: |\n      SELECT\n        nope(user) FROM input\n",
            "revenue.yml:9: step 1 (step_1), sql: Cannot",
        ),
        ("steps:\n  - sql: DROP TABLE x\n", "revenue.yml:7: step 1 (step_1), sql: Syntax error"),
        ("steps:\n  - sql: CREATE TABLE x (a int)\n", "revenue.yml:7: step 1 (step_1), sql: Syntax error"),
        ("steps:\n  - sql: SELECT 1; SELECT 2\n", "revenue.yml:7: step 1 (step_1), sql: Syntax error"),
        (
            "steps:\n  - sql: SELECT user FROM input\n  - name: b\n    sql: SELECT amount FROM step_1\n",
            "revenue.yml:9: step 2 (b), sql: A column",
        ),
        (
            "steps:\n  - sql: SELECT user, count(*) AS n FROM input GROUP BY user\n  - sql: SELECT n FROM step_1\n",
            "revenue.yml:7: step 1 (step_1), sql: Invalid streaming output mode: append",
        ),
        ("steps:\n  - sql: SELECT * FROM input ORDER BY at\n", "revenue.yml:7: step 1 (step_1), sql: Sorting is not"),
        (
            "steps:\n  - sql: SELECT * FROM input\n    watermark: {column: att, delay: 1 s}\n",
            "revenue.yml:8: step 1 (step_1), watermark: there is no column 'att'; did you mean 'at'?",
        ),
        (
            "steps:\n  - sql: SELECT * FROM input\n    watermark: {column: user, delay: 1 s}\n",
            "revenue.yml:8: step 1 (step_1), watermark: The event time `user` has the invalid type",
        ),
    ],
)
def test_SP_13_an_error_in_sql_names_the_step_and_the_line(
    text: str, said: str, spark: SparkSession, write: Write
) -> None:
    pipeline = write(SOURCE + text + "sinks:\n  - topic: large\n")
    with pytest.raises(InvalidArgument) as caught:
        compile_pipeline(spark, pipeline, NOWHERE)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not [view.name for view in spark.catalog.listTables() if view.name in ("input", "step_1")]


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("topic: large\n    key: usr", "sink 1 (topic-large): there is no column 'usr'; did you mean 'user'?"),
        ("topic: large\n    value: amount", "sink 1 (topic-large): column amount is int, and a record is STRING"),
        ("topic: large\n    value: [user, amnt]", "sink 1 (topic-large): there is no column 'amnt'; did you mean"),
        ("parquet: lake\n    partition_by: dy", "sink 1 (parquet-lake): there is no column 'dy'"),
    ],
)
def test_SP_13_a_column_that_a_sink_does_not_find_is_named(
    sink: str, said: str, spark: SparkSession, write: Write
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        compile_pipeline(spark, write(SOURCE + f"sinks:\n  - {sink}\n"), NOWHERE)
    assert f"revenue.yml:7: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{user: strin}", "revenue.yml:5: source, schema, user: Unsupported data type"),
        ("{user: 'string, a int'}", "revenue.yml:5: source, schema, user: 'string, a int' is not one type"),
        ("user strin", "revenue.yml:5: source, schema: Unsupported data type"),
        ("{_offset: int}", "revenue.yml:3: source: column _offset is there twice"),
        ("{_corrupt: int}", "revenue.yml:3: source: _corrupt is the column for records that do not fit"),
    ],
)
def test_SP_13_a_wrong_schema_is_named(schema: str, said: str, spark: SparkSession, write: Write) -> None:
    text = SOURCE.replace("{user: string, amount: int, at: timestamp}", schema) + "sinks:\n  - console:\n"
    with pytest.raises(InvalidArgument) as caught:
        compile_pipeline(spark, write(text), NOWHERE)
    assert said in str(caught.value)


def test_records_that_do_not_fit_are_refused_dropped_or_kept(
    spark: SparkSession, tl: Client, db_url: str, write: Write
) -> None:
    tl.create_topic("orders")
    bad = [b"nonsense", b"", b"null", b"[1]", b'{"amount": "many"}', b'{"amount": 1']
    tl.publish_many("orders", [b'{"amount": 1, "more": 2}', *bad, b"{}"])
    kinds = {}
    for kind in ("fail", "drop", "keep"):
        columns = "amount, _corrupt, _offset" if kind == "keep" else "amount, _offset"
        text = f"  bad_records: {kind}\nsteps:\n  - sql: SELECT {columns} FROM input\n"
        text += f"sinks:\n  - console:\n    name: {kind}\n"
        kinds[kind] = write(SOURCE + text)
    with pytest.raises(QueryFailed) as caught:
        caught_up(spark, kinds["fail"], db_url)
    assert "sink 1 (fail): offset 2 of orders, partition 0, does not fit the schema" in str(caught.value)
    ((_, _, dropped, _),) = caught_up(spark, kinds["drop"], db_url).shown
    assert set(dropped) == {(1, 1), (None, 8)}
    ((_, _, kept, _),) = caught_up(spark, kinds["keep"], db_url).shown
    assert {row[2]: row[1] for row in kept} == {1: None, 8: None, **{n: b.decode() for n, b in enumerate(bad, start=2)}}


def test_text_and_raw_records_go_through_as_they_are(
    spark: SparkSession, topics: Client, db_url: str, write: Write
) -> None:
    """A row with a column value is a record: key and value are taken over."""
    for form in ("text", "raw"):
        topics.create_topic(form, partitions=3)
        text = f"name: {form}\nsource: {{topic: orders, format: {form}}}\n"
        text += f"steps:\n  - sql: SELECT key, value FROM input\nsinks:\n  - topic: {form}\n"
        caught_up(spark, write(text), db_url)
        pairs = [(r.key, r.payload) for p in range(3) for r in topics.read(form, partition=p)]
        assert sorted(pairs, key=str) == sorted(
            [(r.key, r.payload) for p in range(3) for r in topics.read("orders", partition=p)], key=str
        )
    with pytest.raises(InvalidArgument, match="rows are taken as records, and topic, offset, timestamp would be lost"):
        compile_pipeline(spark, write("name: a\nsource: {topic: a, format: text}\nsinks:\n  - topic: b\n"), NOWHERE)


def test_a_query_that_fails_ends_the_others_and_names_its_step_and_line(
    spark: SparkSession, topics: Client, db_url: str, write: Write
) -> None:
    """The other query has no end of its own: that the run ends shows that it was stopped."""
    pipeline = write(
        SOURCE
        + """\
steps:
  - name: fine
    sql: SELECT user FROM input
  - name: inverse
    sql: |
      SELECT user,
        1 / (amount - 250) AS inverse
      FROM input
sinks:
  - topic: large
    from: fine
  - parquet: lake
"""
    )
    seen = Seen()
    with pytest.raises(QueryFailed, match=r"revenue\.yml:12: step 2 \(inverse\), sql: Division by zero"):
        run(spark, pipeline, RunSettings(db_url, checkpoints="checkpoints"), seen)
    assert [look.state for look in seen.looks] == ["stopped", "failed"]
    assert not [query for query in spark.streams.active if (query.name or "").startswith("revenue/")]


def test_an_error_of_ours_inside_spark_stays_what_it_is_and_names_the_sink(
    spark: SparkSession, topics: Client, db_url: str, write: Write
) -> None:
    pipeline = write(SOURCE + "sinks:\n  - topic: nowhere\n    name: out\n")
    with pytest.raises(NotFound, match=r"revenue\.yml:7: sink 1 \(out\): topic nowhere does not exist"):
        check_topics(pipeline, db_url)
    with pytest.raises(NotFound, match=r"revenue\.yml:7: sink 1 \(out\): topic nowhere does not exist"):
        caught_up(spark, pipeline, db_url)
    with pytest.raises(NotFound, match=r"revenue\.yml:3: source: topic elsewhere does not exist"):
        check_topics(write(SOURCE.replace("orders", "elsewhere") + "sinks:\n  - console:\n"), db_url)
    with pytest.raises(TrunklineError) as caught:
        check_topics(pipeline, NOWHERE)
    assert "secret" not in str(caught.value)


def test_signals_are_counted_while_it_runs_and_handed_back_after() -> None:
    import os
    import signal

    before = signal.getsignal(signal.SIGTERM)
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert (signals.count, signals.number) == (2, signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
