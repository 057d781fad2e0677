"""A driver of somebody else's: a package outside of this one, found by its entry point, and judged by the suite."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).resolve().parents[2] / "examples" / "driver_template"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the template as an installer leaves it: its module, and its entry points beside it."""
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text("utf-8"))["project"]
    folder = tmp_path / "site"
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (folder / "acme_trunkline.py").write_text((TEMPLATE / "acme_trunkline.py").read_text("utf-8"), "utf-8")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """In a process that knows of the package by its path alone."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_S2_30_a_driver_from_outside_is_found_by_its_entry_point_and_passes_the_suite(installed: Path) -> None:
    """Nothing is skipped but what the driver does not claim, in its blocking form, which is the one it has."""
    (installed / "test_acme.py").write_text((TEMPLATE / "test_acme.py").read_text("utf-8"), "utf-8")
    (installed / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = run(installed, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_acme.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert set(done.stdout.partition("short test summary")[2].splitlines()[1:-1]) <= {
        line for line in done.stdout.splitlines() if "the driver has no ordering" in line
    }


def test_S2_30_a_driver_from_outside_is_listed_and_opened_by_its_scheme(installed: Path) -> None:
    program = """
import trunkline, trunkline.aio, asyncio, acme_trunkline
from trunkline import errors, portable
assert "acme" in portable.driver_names()
acme_trunkline.create_topic("acme.db", "orders")
acme_trunkline.create_subscription("acme.db", "orders", "emails", 30)
with trunkline.open_topic("pubsub+acme://orders?file=acme.db") as topic:
    topic.send(b"hello")
with trunkline.open_subscription("acme://orders?file=acme.db&subscription=emails") as subscription:
    message = subscription.receive(wait_s=30)
    assert message.body == b"hello"
    message.ack()
async def refused():
    try:
        await trunkline.aio.open_topic("acme://orders?file=acme.db")
    except errors.NotSupported as error:
        assert error.driver == "acme" and "no asyncio form" in str(error), error
    else:
        raise AssertionError("opened")
asyncio.run(refused())
"""
    done = run(installed, "-c", program)
    assert done.returncode == 0, done.stderr
