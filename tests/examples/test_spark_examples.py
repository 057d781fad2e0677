"""The examples on Spark run, as their first lines say, and give what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import trunkline
from trunkline.engine.dead_letters import dead_letter
from trunkline.records import Record

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEADLINE_S = 300.0


def run(name: str, url: str, folder: Path, *arguments: str) -> str:
    """What an example prints, started in an empty folder."""
    source = str(Path(trunkline.__file__).parents[1])
    search = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**os.environ, "TRUNKLINE_URL": url, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def payloads(url: str, topic: str) -> list[bytes]:
    with trunkline.connect(url) as tl:
        parts = range(tl.topic(topic).partitions)
        return [record.payload for n in parts for record in tl.read(topic, partition=n, max_records=10_000)]


def test_revenue_by_minute_adds_up(db_url: str, tmp_path: Path) -> None:
    assert run("revenue_by_minute.py", db_url, tmp_path).startswith("60 minutes; the first: ")
    orders = [json.loads(payload) for payload in payloads(db_url, "orders")]
    minutes = [json.loads(payload) for payload in payloads(db_url, "revenue")]
    of_the_day = [order for order in orders if order["time"].startswith("2026-01-05")]
    assert sum(minute["revenue"] for minute in minutes) == sum(order["amount"] for order in of_the_day)
    assert [minute["orders"] for minute in minutes] == [3] * 60


def test_clicks_become_sessions(db_url: str, tmp_path: Path) -> None:
    assert run("clickstream_sessions.py", db_url, tmp_path) == "40 sessions of 20 users, 5 clicks each\n"


def test_dead_letters_go_back_once(db_url: str, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    record = Record("orders", 0, 1, b"k", b"v", (("source", b"web"),), now)
    letters = [
        dead_letter(record, attempts=3, reason=f"{reason}: no", time=now) for reason in ("ValueError", "KeyError")
    ]
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish_many("orders.dead", letters)
        for _ in range(2):
            said = run("dead_letter_replay.py", db_url, tmp_path, "orders.dead", "ValueError", "monday")
            assert said == "1 of 2 dead letters were sent back\n"
        (back,) = tl.read("orders")
        assert (back.key, back.payload, back.headers) == (b"k", b"v", (("source", b"web"),))
