"""The fixtures that the package brings to pytest."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import trunkline
from trunkline.testing import MemoryBroker


def test_the_plugin_is_registered() -> None:
    (found,) = entry_points(group="pytest11", name="trunkline")
    assert found.value == "trunkline.testing.plugin"


def test_a_memory_broker_is_there_and_empty(trunkline_memory: MemoryBroker) -> None:
    trunkline_memory.create_topic("orders")
    trunkline_memory.create_subscription("orders", "emails")
    with trunkline.open_topic("memory://orders") as topic:
        topic.send(b"hello")
    with trunkline.open_subscription("memory://orders?subscription=emails") as subscription:
        assert subscription.receive().body == b"hello"


def test_each_test_has_a_memory_broker_of_its_own(trunkline_memory: MemoryBroker) -> None:
    trunkline_memory.create_topic("orders")


def test_an_embedded_server_is_there(trunkline_embedded: str) -> None:
    with trunkline.connect(trunkline_embedded) as tl:
        tl.create_topic("orders")
        assert tl.publish("orders", b"hello").offset == 1


def test_without_its_fixtures_the_plugin_imports_nothing_of_the_package(tmp_path: Path) -> None:
    """Goal: a run of somebody's tests is no slower because the package is installed."""
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it():\n    assert not {'psycopg', 'trunkline.client'} & set(sys.modules)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
