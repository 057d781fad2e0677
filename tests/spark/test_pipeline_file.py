"""Pipeline files that are wrong: every error names the file, the line and the step. No Spark is needed for these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import InvalidArgument, NotFound, TrunklineError
from trunkline.nodes import FILE_BYTES_MAX
from trunkline.spark.pipeline.file import (
    ConsoleSink,
    ParquetSink,
    Pipeline,
    SqlStep,
    TopicSink,
    load,
)

GOOD = """\
name: revenue
source:
  topic: orders
  format: json
  schema: {amount: double, time: timestamp}
steps:
  - name: by_minute
    watermark: {column: time, delay: 1 minute}
    sql: |
      SELECT *
      FROM input
  - sql: SELECT * FROM by_minute
sinks:
  - topic: revenue
    key: minute
  - parquet: lake/revenue
    partition_by: [day]
    from: by_minute
  - console: 5
"""


def read(text: str | bytes, folder: Path) -> Pipeline:
    path = folder / "revenue.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path)


def refused(text: str | bytes, folder: Path) -> str:
    """What the error says after the folder."""
    with pytest.raises(InvalidArgument) as caught:
        read(text, folder)
    return str(caught.value).removeprefix(f"{folder}/")


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_whole_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    found = read(GOOD, tmp_path)
    assert found.name == "revenue"
    assert found.source.options == {"subscribe": "orders", "startingOffsets": "earliest"}
    assert (found.source.format, found.source.bad_records) == ("json", "fail")
    assert [(each.name, each.type.value) for each in found.source.columns] == [
        ("amount", "double"),
        ("time", "timestamp"),
    ]
    assert [step.name for step in found.steps] == ["by_minute", "step_2"]
    assert found.steps[0].watermark is not None
    assert (found.steps[0].watermark.column, found.steps[0].watermark.delay_ms) == ("time", 60_000)
    assert [(sink.name, sink.reads, sink.mode) for sink in found.sinks] == [
        ("topic-revenue", "step_2", "append"),
        ("parquet-lake-revenue", "by_minute", "append"),
        ("console", "step_2", "append"),
    ]
    assert [sink.made for sink in found.sinks] == [
        TopicSink("revenue", key="minute"),
        ParquetSink("lake/revenue", ("day",)),
        ConsoleSink(5),
    ]
    assert found.group_of(found.sinks[0]) == "revenue/topic-revenue"
    assert (found.available_now, found.every_ms, found.checkpoints, found.config) == (False, None, None, {})


@pytest.mark.parametrize(
    ("text", "line"),
    [("|\n      SELECT 1,\n\n        2", 12), ("|2-\n\n      SELECT 1,\n        2", 12), ("SELECT 1", 9)],
)
def test_a_line_of_sql_is_found_in_the_file(text: str, line: int, tmp_path: Path) -> None:
    found = read(changed("|\n      SELECT *\n      FROM input", text), tmp_path)
    step = found.steps[0].made
    assert isinstance(step, SqlStep)
    assert step.sql.line_of(3).line == line
    # What Spark says of the end of the text lies in its last line.
    assert step.sql.line_of(99).line == line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # The file as a whole.
        ("", "revenue.yml:1: is empty; a pipeline needs a name, a source and sinks"),
        ("# nothing\n", "revenue.yml:1: is empty"),
        ("just text", "revenue.yml:1: must be a block of names and values, not text"),
        ("- a\n- b\n", "revenue.yml:1: must be a block of names and values, not a list"),
        (b"name: revenue\nsource: \xff\n", "revenue.yml:2: byte 0xff is not UTF-8"),
        ("name: revenue\nsource: \x07\n", "revenue.yml:2: character"),
        ("name: revenue\n\tsource: 5\n", "revenue.yml:2: this is not YAML: a tab"),
        ("name: revenue\nsource: a: b\n", "revenue.yml:2: this is not YAML: a colon"),
        ("name: [revenue\n", "revenue.yml:2: this is not YAML"),
        (GOOD + "---\nname: other\n", "revenue.yml:20: this is not YAML: a file has one document"),
        ("name: *nobody\n", "revenue.yml:1: this is not YAML: found undefined alias"),
        ("[" * 5_000, "revenue.yml:1: blocks are nested too deeply"),
        ("#" * (FILE_BYTES_MAX + 1), "revenue.yml is over 256 KiB"),
        # Names of keys.
        (changed("steps:", "stepps:"), "revenue.yml:6: a pipeline has no 'stepps'; did you mean 'steps'?"),
        (changed("  topic: orders", "  topik: orders"), "revenue.yml:3: source: a source has no 'topik'; did you mean"),
        (changed("    sql: |", "    sqll: |"), "revenue.yml:9: step 1 (by_minute): a step has no 'sqll'; did you mean"),
        (
            changed("    key: minute", "    kee: minute"),
            "revenue.yml:15: sink 1: a sink has no 'kee'; did you mean 'key'?",
        ),
        (
            changed("    key: minute", "    partition_by: a"),
            "revenue.yml:15: sink 1: 'partition_by' belongs to a sink of",
        ),
        (
            changed("delay: 1", "dely: 1"),
            "revenue.yml:8: step 1 (by_minute), watermark: a watermark has no 'dely'; did",
        ),
        (
            changed("name: revenue", "name: revenue\nname: x"),
            "revenue.yml:2: 'name' stands here for the second time; the",
        ),
        (
            changed("    sql: |", "    name: again\n    sql: |"),
            "revenue.yml:9: step 1: 'name' stands here for the second time; the first is in line 7",
        ),
        (changed("name: revenue", "? [a]\n: b\nname: revenue"), "revenue.yml:1: a name must be plain text"),
        (changed("name: revenue\n", ""), "revenue.yml:1: needs 'name', like name: revenue"),
        (GOOD[: GOOD.index("sinks")], "revenue.yml:1: needs 'sinks', like - topic: revenue"),
        # Types and values.
        (changed("name: revenue", "name: 5"), "revenue.yml:1: name: must be text, not a number (put it in quotes)"),
        (changed("name: revenue", "name: a/b"), "revenue.yml:1: name: 'a/b' is no name"),
        (changed("name: revenue", "name: a..b"), "revenue.yml:1: name: 'a..b' is no name"),
        (changed("name: revenue", "name:"), "revenue.yml:1: name: must be text, not nothing"),
        (changed("  topic: orders", "  topic: yes"), "revenue.yml:3: source, topic: must be text, not true or false"),
        (changed("  topic: orders", "  topic: [a]"), "revenue.yml:3: source, topic: must be text, not a list"),
        (changed("  topic: orders", "  topic: ../a"), "revenue.yml:3: source, topic: "),
        (changed("  topic: orders", "  topics: [a, a]"), "revenue.yml:3: source, topics: 'a' stands in the list twice"),
        (changed("  topic: orders", "  topics: []"), "revenue.yml:3: source, topics: is an empty list"),
        (changed("  topic: orders", "  topics: a"), "revenue.yml:3: source, topics: must be a list, not text"),
        (
            changed("  topic: orders", "  pattern: '('"),
            "revenue.yml:3: source: option subscribePattern is not a regular",
        ),
        (changed("  topic: orders\n", ""), "revenue.yml:3: source: a source needs one of topic, topics, pattern"),
        (
            changed("  topic: orders", "  topic: a\n  pattern: b"),
            "revenue.yml:4: source: a source is of one kind, and this",
        ),
        (
            changed("  format: json", "  format: jsn"),
            "revenue.yml:4: source, format: there is no 'jsn' here; did you mean",
        ),
        (changed("  format: json\n", ""), "revenue.yml:3: source: needs 'format', like format: json"),
        (changed("  format: json", "  format: text"), "revenue.yml:5: source: schema belongs to format: json"),
        (
            changed("  schema: {amount: double, time: timestamp}\n", ""),
            "revenue.yml:3: source: format: json needs a schema",
        ),
        (changed("time: timestamp}", "Amount: int}"), "revenue.yml:5: source, schema: Amount and amount are one name"),
        (changed("{amount: double, time: timestamp}", "{}"), "revenue.yml:5: source, schema: names no column"),
        (
            changed("  format:", "  max_records: 0\n  format:"),
            "revenue.yml:4: source, max_records: must be a whole number",
        ),
        (changed("  format:", "  max_records: many\n  format:"), "revenue.yml:4: source, max_records: must be a whole"),
        (changed("  format:", "  start: soon\n  format:"), "revenue.yml:4: source, start: 'soon' is no place to start"),
        (changed("  format:", "  start: {orders: {0: 0}}\n  format:"), "revenue.yml:4: source: option startingOffsets"),
        (
            changed("  format:", "  start: {orders: {0: x}}\n  format:"),
            "revenue.yml:4: source, start, orders, 0: must be",
        ),
        (changed("  format:", "  bad_records: ignore\n  format:"), "revenue.yml:4: source, bad_records: there is no"),
        (
            changed("  format:", "  options: {minPartition: 4}\n  format:"),
            "revenue.yml:4: source: format('trunkline') has",
        ),
        (changed("  format:", "  options: {url: x}\n  format:"), "revenue.yml:4: source, options: url is set by the"),
        (changed("1 minute", "60"), "revenue.yml:8: step 1 (by_minute), watermark, delay: must be a time like"),
        (changed("1 minute", "[a]"), "revenue.yml:8: step 1 (by_minute), watermark, delay: must be a time like"),
        (
            changed("name: by_minute", "name: by-minute"),
            "revenue.yml:7: step 1, name: 'by-minute' is no name of a view",
        ),
        (
            changed("name: by_minute", "name: Input"),
            "revenue.yml:7: step 1, name: the name Input is taken by the source",
        ),
        (
            changed("  - sql: SELECT", "  - name: BY_minute\n    sql: SELECT"),
            "revenue.yml:12: step 2, name: the name BY_minute is taken by step 1 (by_minute)",
        ),
        (
            changed("  - sql: SELECT * FROM by_minute", "  - sql:"),
            "revenue.yml:12: step 2 (step_2), sql: must be text, not",
        ),
        (changed("  - sql: SELECT * FROM by_minute", "  - sql: ' '"), "revenue.yml:12: step 2 (step_2), sql: is empty"),
        (
            changed("  - sql: SELECT * FROM by_minute", "  - name: a"),
            "revenue.yml:12: step 2 (a): a step needs one of sql",
        ),
        (
            changed("  - sql: SELECT * FROM by_minute", "  - SELECT 1"),
            "revenue.yml:12: step 2: must be a block of names",
        ),
        (
            changed("  - topic: revenue", "  - topic: revenue\n    parquet: a"),
            "revenue.yml:15: sink 1: a sink is of one kind",
        ),
        (
            changed("  - topic: revenue\n    key", "  - name: a\n    key"),
            "revenue.yml:14: sink 1: a sink needs one of topic",
        ),
        (
            changed("from: by_minute", "from: by_minutes"),
            "revenue.yml:18: sink 2 (parquet-lake-revenue), from: there is no",
        ),
        (
            changed("  - console: 5", "  - console: all"),
            "revenue.yml:19: sink 3, console: must be a whole number, not text",
        ),
        (
            changed("  - console: 5", "  - parquet: lake_revenue\n    name: topic-revenue"),
            "revenue.yml:19: sink 3 (topic-",
        ),
        (
            changed("  - console: 5", "  - parquet: lake-revenue"),
            "revenue.yml:19: sink 3 (parquet-lake-revenue): sink 2",
        ),
        (
            changed("partition_by: [day]", "mode: update"),
            "revenue.yml:17: sink 2 (parquet-lake-revenue), mode: there is no",
        ),
        (
            changed("  - console: 5", "  - console:\n    mode: all"),
            "revenue.yml:20: sink 3 (console), mode: there is no",
        ),
        (GOOD + "trigger: sometimes\n", "revenue.yml:20: trigger: there is no 'sometimes' here; it has available_now"),
        (GOOD + "trigger: {every: soon}\n", "revenue.yml:20: trigger, every: must be a time like"),
        (GOOD + "trigger: {evry: 5 s}\n", "revenue.yml:20: trigger: a trigger has no 'evry'; did you mean 'every'?"),
        (GOOD + "trigger: [5 s]\n", "revenue.yml:20: trigger: must be text, not a list"),
        (GOOD + "checkpoints: 5\n", "revenue.yml:20: checkpoints: must be text, not a number"),
        (GOOD + "config: {shuffle: 5}\n", "revenue.yml:20: config: 'shuffle' is no setting of Spark's"),
        (GOOD + "config: {spark.x: [5]}\n", "revenue.yml:20: config, spark.x: must be one value, not a list"),
        (GOOD + "config: spark\n", "revenue.yml:20: config: must be a block of names and values, not text"),
        (GOOD.split("sinks:", maxsplit=1)[0] + "sinks: []\n", "revenue.yml:13: sinks: is an empty list"),
        (GOOD.split("sinks:", maxsplit=1)[0] + "sinks: 5\n", "revenue.yml:13: sinks: must be a list, not a number"),
        (
            GOOD.split("sinks:", maxsplit=1)[0] + "sinks:\n" + "  - console:\n" * 21,
            "revenue.yml:14: sinks: 21 sinks are too",
        ),
    ],
)
def test_SP_13_what_is_wrong_is_named_with_its_line_and_step(text: str | bytes, said: str, tmp_path: Path) -> None:
    assert refused(text, tmp_path).startswith(said)


def test_SP_13_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no file .*none\.yml"):
        load(tmp_path / "none.yml")
    with pytest.raises(InvalidArgument, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_malformed_url_in_the_file_is_not_repeated(tmp_path: Path) -> None:
    said = refused(GOOD + "url: postgresql://ann:hunter2@[\n", tmp_path)
    assert said.startswith("revenue.yml:20: ")
    assert "hunter2" not in said


def test_a_url_in_the_file_is_taken_and_does_not_show(tmp_path: Path) -> None:
    found = read(GOOD + "url: postgresql://ann:hunter2@here/db\n", tmp_path)
    assert found.url == "postgresql://ann:hunter2@here/db"
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("earliest", {"startingOffsets": "earliest"}),
        ("latest", {"startingOffsets": "latest"}),
        ("{orders: {0: 23, 1: -2}}", {"startingOffsets": '{"orders":{"0":23,"1":-2}}'}),
        (
            "2026-01-01T00:00:00Z",
            {"startingTimestamp": "1767225600000", "startingOffsetsByTimestampStrategy": "latest"},
        ),
        ("2026-01-01", {"startingTimestamp": "1767225600000", "startingOffsetsByTimestampStrategy": "latest"}),
    ],
)
def test_where_a_first_run_begins(start: str, options: dict[str, str], tmp_path: Path) -> None:
    found = read(changed("  format:", f"  start: {start}\n  format:"), tmp_path)
    assert found.source.options == {"subscribe": "orders", **options}


@pytest.mark.parametrize(
    ("text", "ms"), [("500 ms", 500), ("5 s", 5_000), ("5s", 5_000), ("1.5 min", 90_000), ("2 hours", 7_200_000)]
)
def test_a_trigger_takes_units(text: str, ms: int, tmp_path: Path) -> None:
    assert read(GOOD + f"trigger: {{every: {text}}}\n", tmp_path).every_ms == ms
    assert read(GOOD + "trigger: available_now\n", tmp_path).available_now


def test_settings_of_spark_are_kept_as_written(tmp_path: Path) -> None:
    found = read(GOOD + "config: {spark.a: 5, spark.b: true, spark.c: '08'}\n", tmp_path)
    assert found.config == {"spark.a": "5", "spark.b": "true", "spark.c": "08"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "source", "steps", "sinks", "topic", "sql", "x"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_the_yaml_holds_the_answer_is_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    import yaml

    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_text(yaml.safe_dump(value), "utf-8")
    with pytest.raises(TrunklineError, match=r"any\.yml:\d+: "):
        load(path)


@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_the_answer_is_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yml"
    path.write_bytes(content)
    with pytest.raises(TrunklineError, match=r"bytes\.yml:\d+: "):
        load(path)
