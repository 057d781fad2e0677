"""The conformance suite on the driver. Run it with pytest, where the package is installed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import acme_trunkline
import pytest

from trunkline.errors import Closed
from trunkline.testing import Conformance, Harness


class AcmeHarness(Harness):
    quiet_s = 0.05

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._numbers = count(1)

    def create_topic(self) -> str:
        name = f"topic-{next(self._numbers)}"
        acme_trunkline.create_topic(self._file, name)
        return f"acme://{name}?file={self._file}"

    def create_subscription(self, topic_url: str, *, ordered: bool = False) -> str:
        assert not ordered, "the driver claims no ordering"
        topic = topic_url.removeprefix("acme://").partition("?")[0]
        name = f"subscription-{next(self._numbers)}"
        acme_trunkline.create_subscription(self._file, topic, name, self.ack_deadline_s)
        return f"{topic_url}&subscription={name}"

    def missing_topic(self) -> str:
        return f"acme://missing?file={self._file}"

    def missing_subscription(self, topic_url: str) -> str:
        return f"{topic_url}&subscription=missing"

    def pass_time(self, seconds: float) -> None:
        """Nobody waits: what is held is held for less time."""
        with closing(sqlite3.connect(self._file)) as connection, connection:
            connection.execute("update message set held_until = held_until - ? where held_until > 0", (seconds,))


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return AcmeHarness(tmp_path / "acme.db")


class TestAcme(Conformance):
    pass


def test_what_is_under_way_at_a_close_ends_with_closed(tmp_path: Path) -> None:
    """A receive may have looked whether it is closed just before it was. Twice: whoever fails leaves the lock free."""
    file = acme_trunkline.File(str(tmp_path / "acme.db"))
    file.close()
    for _ in range(2):
        with pytest.raises(Closed), file:
            pass
