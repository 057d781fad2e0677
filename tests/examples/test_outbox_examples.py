"""The examples of the outbox run as their first lines say, twice: what was refused left neither row nor event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trunkline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEADLINE_S = 60.0


def run(example: str, url: str) -> list[str]:
    """What an example prints, line by line."""
    source = str(Path(trunkline.__file__).parents[1])
    environment = {**os.environ, "TRUNKLINE_URL": url, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, example],
        cwd=EXAMPLES,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def amounts(url: str) -> list[int]:
    with trunkline.connect(url) as tl:
        return [json.loads(record.payload)["amount"] for record in tl.read("orders.placed")]


@pytest.mark.parametrize("library", ["psycopg", "sqlalchemy", "django"])
def test_S4_01_an_example_places_one_order_and_takes_the_other_back(library: str, direct_url: str) -> None:
    refused = {"psycopg": "an order of -1 cannot be placed", "sqlalchemy": "check constraint", "django": "[200, 500]"}
    for placed in (1, 2):
        said, rows, events = run(f"outbox_{library}.py", direct_url)[-3:]
        assert refused[library] in said
        assert rows.startswith("rows: ")
        assert rows.count("12") == events.count("12") == placed
        assert "-1" not in rows + events
        assert amounts(direct_url) == [12] * placed


def test_S4_01_an_order_that_is_there_already_is_refused_with_its_event(direct_url: str) -> None:
    first, second, events = run("outbox_fastapi.py", direct_url)
    assert (first, second) == ("{'order': 1, 'amount': 12}", "{'detail': 'there is an order 1 already'}")
    assert events.count("amount") == 1
    run("outbox_fastapi.py", direct_url)
    assert amounts(direct_url) == [12]
