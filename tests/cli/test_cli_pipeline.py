"""`trunkline pipeline` without Spark: files that are refused, an extra that is missing, and what is shown where.

Pipelines that run are in tests/spark."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from tests.cli.conftest import Run
from trunkline.cli.pipeline_view import JsonView, LineView, LiveView, view
from trunkline.spark.pipeline.progress import BatchDone, Look, batch_done
from trunkline.spark.pipeline.run import Started

STARTED = [Started("topic-revenue", "revenue/topic-revenue", "/data/topic-revenue")]
DONE = BatchDone("topic-revenue", batch=3, rows=1200, rows_per_s=4567.8, took_ms=250, lag=17)
WORKING = Look("topic-revenue", "working", 3, 5000, 4567.8, 17)


@pytest.mark.parametrize("verb", ["check", "run"])
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, 3, "error [TL002]: there is no file bad.yml"),
        ("", 2, "error [TL001]: bad.yml:1: is empty"),
        ("name: a\nsorce: 5\n", 2, "error [TL001]: bad.yml:2: a pipeline has no 'sorce'; did you mean 'source'?"),
    ],
)
def test_SP_13_a_wrong_file_is_refused_before_anything_starts(
    verb: str, text: str | None, code: int, said: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("bad.yml").write_text(text, "utf-8")
    refused = run("pipeline", verb, "bad.yml")
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.output


@pytest.mark.parametrize("module", ["yaml", "pyspark"])
def test_what_must_be_installed_is_said(module: str, tmp_path: Path) -> None:
    """In a process that has no such module."""
    file = tmp_path / "good.yml"
    file.write_text("name: a\nsource: {topic: a, format: raw}\nsinks: [console: 5]\n", "utf-8")
    without = f"import sys; sys.modules[{module!r}] = None; from trunkline.cli.main import main; main()"
    refused = subprocess.run(
        [sys.executable, "-c", without, "pipeline", "check", str(file)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 3
    assert "pip install 'trunkline[spark]'" in refused.stderr


def test_piped_a_batch_is_a_line_and_an_end_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown = LineView()
    shown.begin(STARTED)
    shown.look([Look("topic-revenue", "starting")])
    shown.batch(DONE)
    shown.look([WORKING])
    # The next batch comes too soon for another line.
    shown.batch(DONE)
    shown.look([WORKING])
    shown.rows("console", 3, ["user", "amount"], [("ann", 5), ("bob\n", None)], more=True)  # type: ignore[list-item]
    for _ in range(2):
        shown.look([Look("topic-revenue", "done", 4, 6200, 10.0, 0)])
    out, err = capsys.readouterr()
    assert err == "topic-revenue: group revenue/topic-revenue, checkpoint /data/topic-revenue\n"
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["time", "sink", "batch", "rows", "rows/s", "lag", "state"]
    assert [line[1:] for line in lines[1:] if len(line) == 7] == [
        ["topic-revenue", "3", "5,000", "4,568", "17", "working"],
        ["topic-revenue", "4", "6,200", "10", "0", "done"],
    ]
    assert lines[2:5] == [["console", "3", "ann", "5"], ["console", "3", "bob\\n", "-"], ["console", "3", "…"]]


def test_as_json_every_batch_row_and_end_is_an_object(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    shown = JsonView()
    shown.begin(STARTED)
    shown.batch(DONE)
    shown.rows("console", 3, ["user", "raw"], [("ann", bytearray(b"x"))], more=False)  # type: ignore[list-item]
    for _ in range(2):
        shown.look([Look("topic-revenue", "stopped", 3, 1200)])
    said = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert said[0] == {"started": "topic-revenue", "group": STARTED[0].group, "checkpoint": STARTED[0].checkpoint}
    assert {key: said[1][key] for key in ("sink", "batch", "rows", "lag")} == {
        "sink": "topic-revenue",
        "batch": 3,
        "rows": 1200,
        "lag": 17,
    }
    assert said[2:] == [
        {"sink": "console", "batch": 3, "row": {"user": "ann", "raw": "eA=="}},
        {"ended": "topic-revenue", "state": "stopped", "rows": 1200},
    ]


def test_on_a_terminal_a_table_is_kept_up_to_date_and_rows_stand_above_it() -> None:
    text = io.StringIO()
    with Live(console=Console(file=text, force_terminal=True, width=120), auto_refresh=False) as live:
        shown = LiveView(live)
        shown.begin(STARTED)
        shown.look([Look("topic-revenue", "starting")])
        shown.batch(DONE)
        shown.rows("console", 3, ["user"], [("ann",), ("[red]bob",)], more=True)  # type: ignore[list-item]
        shown.look([WORKING])
    said = text.getvalue()
    for part in ("checkpoint /data/topic-revenue", "starting", "ann", "[red]bob", "and more", "4,568", "working"):
        assert part in said


def test_the_face_is_chosen_by_where_output_goes() -> None:
    with view(as_json=True) as one, view(as_json=False) as other:
        assert (type(one), type(other)) == (JsonView, LineView)


@pytest.mark.parametrize(
    ("source", "lag"),
    [
        ({"endOffset": {"a": {"0": 5, "1": 2}, "@": {"version": 1}}, "latestOffset": {"a": {"0": 9, "1": 2}}}, 4),
        ({"endOffset": '{"a": {"0": 5}}', "latestOffset": '{"a": {"0": 9, "1": 3}}'}, 6),
        ({"endOffset": {"a": {"0": 5}}, "latestOffset": None}, None),
        ({"endOffset": "nonsense", "latestOffset": "{"}, None),
    ],
)
def test_the_lag_is_what_a_batch_left_to_read(source: dict[str, object], lag: int | None) -> None:
    progress = {
        "batchId": 3,
        "numInputRows": 7,
        "processedRowsPerSecond": "NaN",
        "batchDuration": 5,
        "sources": [source],
    }
    assert batch_done("x", progress) == BatchDone("x", 3, 7, 0.0, 5, lag)
