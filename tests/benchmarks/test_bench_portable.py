"""What the benchmark of the portable API is made of does what it says, in small: all sides handle every message."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.direct.memory import Gathered
from benchmarks.port_jobs import WARM_CALLS, Crowd, PortJob, Receiving, Sending, Touched
from benchmarks.ports import DirectMemory, DirectPostgres, Port, PortableMemory, PortablePostgres
from benchmarks.profile_jobs import Profile, ProfileJob

SIDES: tuple[Port, ...] = (
    PortableMemory(),
    DirectMemory(),
    DirectMemory("bare, memory", bare=True),
    PortablePostgres(),
    DirectPostgres(),
)
CALLS = 5


@pytest.mark.parametrize("kind", [Sending, Receiving])
@pytest.mark.parametrize("side", SIDES, ids=[side.name for side in SIDES])
def test_every_call_of_every_task_is_made_and_every_message_counted(
    db_url: str, side: Port, kind: type[PortJob]
) -> None:
    crowd = Crowd(2, 1 if side.name.startswith("bare") else 3)
    side.create(db_url, 1, 2)
    with kind(side, db_url, 1, crowd, CALLS).opened() as work:
        measured = work()
    side.drop(db_url, 1)
    assert measured.tally.records == crowd.size * CALLS + crowd.clients * WARM_CALLS
    assert measured.rate > 0
    assert 0 < measured.p50 <= measured.p99


async def test_a_message_that_never_comes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.port_jobs.END_S", 0.0)

    async def handle() -> bytes:
        await asyncio.Event().wait()
        return b""

    with pytest.raises(AssertionError, match="0 of 1 messages came"):
        await Touched(1).by([handle])


async def test_direct_calls_at_the_same_time_go_together_and_each_gets_its_own_answer() -> None:
    batches: list[list[int]] = []

    async def call(items: list[int]) -> list[int | Exception]:
        batches.append(items)
        await asyncio.sleep(0)
        return [ValueError(str(item)) if item == 2 else item * 10 for item in items]

    gathered = Gathered(call)
    found = await asyncio.gather(*(gathered.one(number) for number in range(4)), return_exceptions=True)
    assert batches == [[0], [1, 2, 3]]
    assert [str(each) for each in found] == ["0", "10", "2", "30"]


@pytest.mark.parametrize("shared", [False, True])
def test_every_message_of_a_profile_is_handled(shared: bool) -> None:
    with ProfileJob(Profile("small", bursts=3, burst=50, pause_s=0, handle_s=0, slow_s=0.001), shared).opened() as work:
        found = work()
    assert found.tally.records == 150
    assert found.rate > 0
    assert found.ahead_s >= 0
