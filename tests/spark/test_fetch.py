"""One task's reading: the next statement runs while records of the last one are taken, and ends with the task."""

from __future__ import annotations

import gc
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.spark.reading import a_reader
from trunkline import Client
from trunkline.errors import OffsetOutOfRange, Unavailable
from trunkline.spark import fetch, workers
from trunkline.spark.fetch import RangeReader

BOUND_S = 30.0


@pytest.fixture
def a_range(tl: Client, db_url: str) -> RangeReader:
    """Four batches, each of which takes a statement."""
    tl.create_topic("orders")
    for text in (b"a", b"b", b"c", b"d"):
        tl.publish_many("orders", [text, text])
    (partition,) = a_reader(db_url, subscribe="orders").partitions()
    (range_,) = partition.value
    return RangeReader(db_url, range_, ("value",), bytes_each=1)


def ahead() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("trunkline-ahead")]


def test_the_next_statement_runs_while_records_are_taken(a_range: RangeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: whoever takes the first batch waits, and goes on only when the second statement has been answered."""
    answered = [threading.Event() for _ in range(4)]
    ask, number = RangeReader._ask, iter(range(4))

    def noted(self: RangeReader, statement: str) -> Any:
        answer = ask(self, statement)
        answered[next(number)].set()
        return answer

    monkeypatch.setattr(RangeReader, "_ask", noted)
    batches = a_range.batches()
    taken = next(batches).column(0).to_pylist()
    assert answered[1].wait(BOUND_S)
    assert not answered[2].is_set(), "memory is bounded: one statement ahead, not two"
    for batch in batches:
        taken += batch.column(0).to_pylist()
    assert taken == [b"a", b"a", b"b", b"b", b"c", b"c", b"d", b"d"]
    assert not ahead()


def test_a_range_of_one_statement_has_no_thread(a_range: RangeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batches are short, and starting a thread would be a part of them."""
    monkeypatch.setattr(fetch, "ThreadPoolExecutor", None)
    a_range.bytes_each = 1_000_000
    assert sum(batch.num_rows for batch in a_range.batches()) == 8


def test_an_iterator_that_is_closed_leaves_no_thread(a_range: RangeReader) -> None:
    batches = a_range.batches()
    next(batches)
    assert ahead()
    batches.close()
    assert not ahead()


def test_closing_does_not_wait_for_a_server_that_is_away(a_range: RangeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: every statement after the first fails, in a way that is tried again for a minute; then it is closed."""
    pauses = threading.Semaphore(0)
    pause, read = RangeReader._pause, RangeReader._read

    def away(self: RangeReader, layout: Any) -> Any:
        if self._here == 1:
            return read(self, layout)
        raise Unavailable("gone")

    def noted(self: RangeReader, attempt: int, deadline: float, error: Any) -> None:
        pauses.release()
        pause(self, attempt, deadline, error)

    monkeypatch.setattr(RangeReader, "_read", away)
    monkeypatch.setattr(RangeReader, "_pause", noted)
    monkeypatch.setattr(fetch, "backoff_s", lambda *_, **__: BOUND_S)
    batches = a_range.batches()
    next(batches)
    assert pauses.acquire(timeout=BOUND_S)
    closing = threading.Thread(target=batches.close)
    closing.start()
    closing.join(BOUND_S / 2)
    assert not closing.is_alive()
    assert not ahead()


def test_what_was_read_before_an_error_comes_first(a_range: RangeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    read = RangeReader._read

    def short(self: RangeReader, layout: Any) -> Any:
        if self._here == 5:
            raise OffsetOutOfRange("dropped")
        return read(self, layout)

    monkeypatch.setattr(RangeReader, "_read", short)
    batches = a_range.batches()
    assert [next(batches).column(0).to_pylist() for _ in range(2)] == [[b"a", b"a"], [b"b", b"b"]]
    with pytest.raises(OffsetOutOfRange, match="dropped"):
        next(batches)
    assert not ahead()


@pytest.mark.parametrize(("program", "times"), [("pyspark.daemon", 1), ("pytest", 0)])
def test_only_a_worker_of_sparks_leaves_its_imports_out_of_collections(
    program: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name=program)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", main)
    frozen: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(None))
    workers.spare_collections()
    assert len(frozen) == times
