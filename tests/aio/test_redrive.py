"""Dead letters that go back: each once, whatever filters, crashes and other redrives there are."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.aio.shim import at_once
from tests.concurrency.proxy import Fault, between
from trunkline import LetterFilter, Record, errors
from trunkline.aio import AsyncClient, connect, dead_letters, purge_letters, redrive
from trunkline.engine.dead_letters import dead_letter, fitted

DEAD = "orders.dead"


async def put_away(tl: AsyncClient, *numbers: int, reason: str = "ValueError: no", origin: str = "orders") -> None:
    """Dead letters as handlers and queues write them, in partition 0."""
    now = datetime.now(UTC)
    headers = (("source", b"web"), ("trunkline-deliver-after", b"3600"))
    records = [Record(origin, 0, each, b"key-%d" % each, b"%d" % each, headers, now) for each in numbers]
    letters = [dead_letter(record, attempts=5, reason=reason, time=now) for record in records]
    await tl.publish_many(DEAD, letters, partition=0)


async def payloads(tl: AsyncClient, topic: str = "orders") -> list[int]:
    logs = await tl.offsets(topic)
    found = [record for log in logs for record in await tl.read(topic, partition=log.partition, max_records=1_000)]
    return sorted(int(record.payload) for record in found)


async def topics(tl: AsyncClient) -> None:
    await tl.create_topic("orders", partitions=2)
    await tl.create_topic(DEAD, partitions=2)


async def test_letters_go_back_as_they_were_and_once(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1, 2, 3)
        told: list[tuple[int, int]] = []
        report = await redrive(tl, DEAD, progress=lambda looked, sent: told.append((looked, sent)))
        assert (report.sent, report.topics, report.is_complete) == (3, {"orders": 3}, True)
        assert told[-1] == (3, 3)

        log = next(each for each in await tl.offsets("orders") if each.end > each.start)
        record = (await tl.read("orders", partition=log.partition, max_records=1))[0]
        assert record.key == b"key-" + record.payload
        assert record.headers == (("source", b"web"), ("trunkline-redriven", b"orders.dead/0/" + record.payload))

        again = await redrive(tl, DEAD)
        assert (again.sent, await payloads(tl)) == (0, [1, 2, 3])
        await put_away(tl, 4)
        assert (await redrive(tl, DEAD)).sent == 1
        assert await payloads(tl) == [1, 2, 3, 4]


async def test_what_a_filter_does_not_take_stays_for_another_run(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await tl.create_topic("refunds")
        await put_away(tl, 1, 2, reason="ValueError: no")
        await put_away(tl, 3, reason="KeyError: 'x'")
        await put_away(tl, 4, origin="refunds")

        first = await redrive(tl, DEAD, LetterFilter(reason="KeyError*"))
        assert (first.sent, first.passed_over, await payloads(tl)) == (1, 3, [3])
        second = await redrive(tl, DEAD, LetterFilter(origin="orders"))
        assert (second.sent, second.sent_before, second.passed_over) == (2, 1, 1)
        assert await payloads(tl) == [1, 2, 3]
        by_key = await redrive(tl, DEAD, LetterFilter(key="key-4"))
        assert (by_key.topics, await payloads(tl, "refunds")) == ({"refunds": 1}, [4])
        assert (await redrive(tl, DEAD)).sent == 0
        assert await payloads(tl) == [1, 2, 3]


async def test_since_takes_what_was_put_away_later(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1)
        await put_away(tl, 2)
        ((_, time),) = [(each.offset, each.append_time) for each in await tl.read(DEAD, offset=2)]
        report = await redrive(tl, DEAD, LetterFilter(since=time))
        assert (report.sent, report.passed_over, await payloads(tl)) == (1, 1, [2])
        later = LetterFilter(since=datetime.now(UTC) + timedelta(hours=1))
        assert (await redrive(tl, DEAD, later)).sent == 0
        assert (await redrive(tl, DEAD)).sent == 1
        assert await payloads(tl) == [1, 2]


async def test_a_limit_ends_it_and_the_next_run_goes_on(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, *range(250))
        report = await redrive(tl, DEAD, letters_max=120)
        assert (report.sent, report.is_complete) == (120, False)
        assert await payloads(tl) == list(range(120))
        report = await redrive(tl, DEAD, rate_per_s=1_000_000)
        assert (report.sent, report.is_complete) == (130, True)
        assert await payloads(tl) == list(range(250))


async def test_a_dry_run_says_what_would_be_done_and_changes_nothing(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1, 2, 3)
        report = await redrive(tl, DEAD, LetterFilter(key="key-2"), dry_run=True)
        assert (report.sent, report.topics, report.passed_over, report.is_dry_run) == (1, {"orders": 1}, 2, True)
        assert (await payloads(tl), await tl.groups()) == ([], [])
        await redrive(tl, DEAD, LetterFilter(key="key-2"))
        assert (await redrive(tl, DEAD, dry_run=True)).sent == 2
        assert await payloads(tl) == [2]


async def test_it_goes_to_another_topic_where_that_is_said(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await tl.create_topic("repaired")
        await put_away(tl, 1)
        await tl.publish(DEAD, b"2", partition=1)  # says nothing of where it came from
        assert (await redrive(tl, DEAD, to="repaired")).topics == {"repaired": 2}
        assert await payloads(tl, "repaired") == [1, 2]


async def test_what_cannot_go_back_stays_and_is_told(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        small = await tl.alter_topic(DEAD, record_bytes_max=10)
        now = datetime.now(UTC)
        record = Record("orders", 1, 7, None, b"x" * 11, (), now)
        await tl.publish_many(
            DEAD, [fitted(dead_letter(record, attempts=1, reason="no", time=now), small)], partition=0
        )
        await tl.publish(DEAD, b"2", partition=1)
        report = await redrive(tl, DEAD)
        assert (report.sent, report.unfit) == (0, 2)
        assert report.first_unfit is not None
        assert "trunkline get orders 1:7" in report.first_unfit
        assert len(await dead_letters(tl, DEAD)) == 2


async def test_an_origin_that_is_gone_is_told_and_nothing_of_it_is_lost(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1)
        await put_away(tl, 2, origin="gone")
        with pytest.raises(errors.NotFound, match="came from topic gone"):
            await redrive(tl, DEAD)
        assert (await redrive(tl, DEAD, LetterFilter(origin="orders"))).sent == 1
        await tl.create_topic("gone")
        assert (await redrive(tl, DEAD)).topics == {"gone": 1}
        assert await payloads(tl) == [1]


async def test_purged_letters_are_passed_over_and_later_ones_are_not(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1, 2)
        assert await purge_letters(tl, DEAD) == 2
        assert await purge_letters(tl, DEAD) == 0
        await put_away(tl, 3)
        assert [letter.record.payload for letter in await dead_letters(tl, DEAD)] == [b"3"]
        every = await dead_letters(tl, DEAD, include_done=True)
        assert [(letter.record.payload, letter.is_done) for letter in every] == [
            (b"1", True),
            (b"2", True),
            (b"3", False),
        ]
        assert (await redrive(tl, DEAD)).sent == 1
        assert await payloads(tl) == [3]


async def test_letters_are_shown_until_they_were_sent(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1, 2, 3)
        await redrive(tl, DEAD, LetterFilter(key="key-2"))
        assert [letter.record.payload for letter in await dead_letters(tl, DEAD)] == [b"1", b"3"]
        assert len(await dead_letters(tl, DEAD, letters_max=1)) == 1


async def test_a_topic_that_was_made_again_begins_anew(db_url: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        await put_away(tl, 1)
        await redrive(tl, DEAD, LetterFilter(key="key-1"))
        await tl.delete_topic(DEAD)
        await tl.create_topic(DEAD)
        await put_away(tl, 2)
        assert (await redrive(tl, DEAD)).sent == 1
        assert await payloads(tl) == [1, 2]


async def test_a_long_name_has_a_memory_too(db_url: str) -> None:
    async with connect(db_url) as tl:
        await tl.create_topic("orders")
        long = "d" * 200
        await tl.create_topic(long)
        letter = dead_letter(
            Record("orders", 0, 1, None, b"1", (), datetime.now(UTC)), attempts=1, reason="no", time=datetime.now(UTC)
        )
        await tl.publish_many(long, [letter])
        assert [(await redrive(tl, long)).sent for _ in range(2)] == [1, 0]


async def test_answers_that_are_lost_send_nothing_twice_and_lose_nothing(db_url: str) -> None:
    """Of the requests that commit, some are done and nobody is told, some never arrive: each letter goes back once."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    async with connect(db_url) as direct:
        await topics(direct)
        await put_away(direct, *range(300))
        with between(db_url) as (proxy, url):
            async with connect(url) as tl:
                proxy.by_chance(seed, 0.2, [Fault.REPLY_LOST, Fault.REQUEST_LOST])
                proxy.arm(Fault.REPLY_LOST)
                report = await redrive(tl, DEAD, rate_per_s=30_000)
                proxy.by_chance(seed, 0.0, [])
        assert proxy.hits
        assert await payloads(direct) == list(range(300))
        assert (report.sent, report.is_complete) == (300, True)


async def test_two_at_the_same_time_send_each_letter_once(db_url: str) -> None:
    async with connect(db_url) as one, connect(db_url) as other:
        await topics(one)
        await put_away(one, *range(500))
        reports = await at_once(lambda: redrive(one, DEAD), lambda: redrive(other, DEAD))
        assert await payloads(one) == list(range(500))
        assert sum(report.sent for report in reports) == 500


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"to": DEAD}, "cannot be redriven to itself"),
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"rate_per_s": float("inf")}, "rate_per_s"),
        ({"rate_per_s": True}, "rate_per_s"),
        ({"letters_max": 0}, "letters_max"),
        ({"letters_max": 1.5}, "letters_max"),
        ({"dry_run": "no"}, "dry_run"),
        ({"chosen": "ValueError*"}, "LetterFilter"),
    ],
)
async def test_bad_input_is_refused(db_url: str, arguments: dict[str, Any], said: str) -> None:
    async with connect(db_url) as tl:
        await topics(tl)
        with pytest.raises(errors.InvalidArgument, match=said):
            await redrive(tl, DEAD, **arguments)
        with pytest.raises(errors.NotFound):
            await redrive(tl, "missing")
        assert await tl.groups() == []


@pytest.mark.parametrize(
    "conditions",
    [{"reason": ""}, {"reason": 5}, {"origin": "a b"}, {"since": datetime(2026, 1, 1)}, {"since": "-1h"}, {"key": 5}],
)
def test_bad_filters_are_refused(conditions: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        LetterFilter(**conditions)
