"""How a run is shown and kept."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec

from benchmarks.chart import draw
from benchmarks.environment import Environment
from benchmarks.lines import Finding, Line, judged, load_targets, paired
from benchmarks.report import Report, table_row

PLACE = Environment(
    server_version="15.1",
    fsync="on",
    synchronous_commit="on",
    full_page_writes="on",
    checksums="on",
    lz4=True,
    shared_buffers="128MB",
    wal_sync_method="fdatasync",
    file_system="ext4",
    cpus=2,
    python="3.11",
    psycopg="3.3",
    commit="abc",
    seed=1,
)


def line_of(finding: Finding) -> Line:
    return judged(finding, load_targets(), "quick")


def test_in_json_each_line_is_an_object_with_its_place() -> None:
    out = io.StringIO()
    report = Report("log", PLACE, "quick", as_json=True, out=out)
    report.begin()
    report.add(line_of(paired("json-100.write", [3.0], [2.0])))
    (text,) = out.getvalue().splitlines()
    told = json.loads(text)
    assert [told[key] for key in ("name", "value", "baseline", "ratio", "target", "ok")] == [
        "json-100.write",
        3.0,
        2.0,
        1.5,
        1.6,
        False,
    ]
    assert told["unit"] == "records/s"
    assert told["scale"] == "quick"
    assert told["environment"]["fsync"] == "on"


def test_a_row_of_the_table_says_quick_and_whether_it_was_missed() -> None:
    row = table_row(line_of(paired("json-100.write", [3.0, 4.0], [2.0, 2.0])))
    assert "quick" in row
    assert "≥ 1.6" in row
    assert "1.50..2.00" in row
    assert "ok" in row.split()
    assert "MISSED" in table_row(line_of(paired("json-100.write", [1.0], [2.0])))


def test_what_was_not_measured_is_said_and_not_missed() -> None:
    report = Report("log", PLACE, "quick", as_json=False, out=io.StringIO())
    line = line_of(Finding(name="json-100.disk", note="not measured: the server has no lz4"))
    report.add(line)
    assert "not measured" in table_row(line)
    assert report.missed == []


def test_only_a_complete_full_run_replaces_the_figures_that_are_cited(tmp_path: Path) -> None:
    names = []
    for title, scale, complete in (
        ("log", "full", True),
        ("log", "full", False),
        ("log", "quick", True),
        ("groups", "full", True),
    ):
        report = Report(title, PLACE, scale, as_json=True, out=io.StringIO())
        names.append(report.end(complete=complete, folder=tmp_path)[1].name)
    assert names == ["log-latest.json", "log-partial-latest.json", "log-quick-latest.json", "groups-latest.json"]


def test_the_file_holds_the_run_and_the_chart_is_a_picture_of_it(tmp_path: Path) -> None:
    report = Report("log", PLACE, "full", as_json=True, out=io.StringIO())
    report.add(line_of(paired("json-100.write", [3.0], [2.0])))
    held = Finding(name="snapshot.publish", ratio=1.0, series={"records_per_s": [1.0, 2.0, 1.0, 2.0]})
    report.add(line_of(held))
    run, path = report.end(complete=True, folder=tmp_path / "new")
    assert msgspec.json.decode(path.read_bytes(), type=type(run)) == run
    assert draw(run, path.with_suffix(".png"))
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
