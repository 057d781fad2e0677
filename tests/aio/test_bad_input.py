"""Bad input: a typed error with its code, nothing written, and the partition usable afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import trunkline.aio
from trunkline import ClientSettings, Message, errors

BAD_NAMES: list[Any] = [
    "", " ", None, 7, b"orders", "a\0b", "\ud800", "x" * 201, "a'b", 'a"b', "a; drop table x", "a..b", "-a", "/a",
    ".a", "a\nb", "a%sb", "a{}b", "ü", "a b",
]  # fmt: skip
BAD_PARTITIONS: list[Any] = [-1, 2**31, 1.5, True, float("nan"), "10"]
BAD_COUNTS: list[Any] = [0, -1, 2**31, 1.5, True, float("nan"), "10", None]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
async def test_a_name_that_cannot_be(db_url: str, name: Any) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        for call in (
            lambda: tl.create_topic(name),
            lambda: tl.topic(name),
            lambda: tl.delete_topic(name),
            lambda: tl.publish(name, b"x"),
            lambda: tl.publish_many(name, [b"x"]),
            lambda: tl.read(name),
            lambda: tl.offsets(name),
            lambda: tl.alter_topic(name, retention_bytes=1),
        ):
            with pytest.raises(errors.InvalidArgument) as caught:
                await call()
            assert caught.value.code == "TL001"
        assert await tl.topics() == []


async def test_an_unknown_topic_or_partition_is_not_found(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=2)
        for call in (
            lambda: tl.publish("nobody", b"x"),
            lambda: tl.publish_many("nobody", [b"x"]),
            lambda: tl.read("nobody"),
            lambda: tl.offsets("nobody"),
            lambda: tl.publish("orders", b"x", partition=2),
            lambda: tl.publish_many("orders", [Message(b"x", partition=0), Message(b"x", partition=9)]),
            lambda: tl.read("orders", partition=2),
            lambda: tl.pin("orders", 2, 1),
            lambda: tl.retention_run("nobody"),
        ):
            with pytest.raises(errors.NotFound) as caught:
                await call()
            assert caught.value.code == "TL002"
        assert [valid.end for valid in await tl.offsets("orders")] == [1, 1]
        assert (await tl.publish("orders", b"x", partition=1)).offset == 1


@pytest.mark.parametrize(
    ("payload", "options"),
    [
        (None, {}),
        ("text", {}),
        (7, {}),
        ([b"x"], {}),
        (b"x", {"key": 7}),
        (b"x", {"key": "\ud800"}),
        (b"x", {"headers": "a=b"}),
        (b"x", {"headers": {"a": 1}}),
        (b"x", {"headers": {"a": None}}),
        (b"x", {"headers": {1: "a"}}),
        (b"x", {"headers": {"": "a"}}),
        (b"x", {"headers": {"a\0": "a"}}),
        (b"x", {"headers": [("a",)]}),
        (b"x", {"headers": [("a", "\ud800")]}),
        (b"x", {"headers": 5}),
        *((b"x", {"partition": partition}) for partition in BAD_PARTITIONS),
    ],
    ids=ascii,
)
async def test_a_record_that_cannot_be(db_url: str, payload: Any, options: dict[str, Any]) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        with pytest.raises(errors.InvalidArgument):
            await tl.publish("orders", payload, **options)
        with pytest.raises(errors.InvalidArgument):
            await tl.publish_many("orders", [b"fine", Message(payload, **options)])
        assert (await tl.publish("orders", b"fine")).offset == 1


@pytest.mark.parametrize(
    "message",
    [
        Message(b"x" * 1001),
        Message(b"", key=b"k" * 8193),
        Message(b"", headers=[(f"h{n}", b"") for n in range(65)]),
        Message(b"", headers={"h": b"v" * 9 * 1024}),
        Message(b"", headers={"h" * 8193: b""}),
    ],
    ids=["record", "key", "headers", "value", "name"],
)
async def test_a_record_over_a_limit(db_url: str, message: Message) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", settings=trunkline.TopicSettings(record_bytes_max=1000))
        with pytest.raises(errors.TooLarge) as caught:
            await tl.publish_many("orders", [b"fine", message])
        assert caught.value.code == "TL004"
        assert (await tl.publish("orders", b"fine")).offset == 1


async def test_what_is_unusual_but_fine(db_url: str) -> None:
    messages = [
        Message(b""),
        Message(b"x" * 1000),
        Message(bytearray(b"array")),  # type: ignore[arg-type]
        Message(memoryview(b"view")),  # type: ignore[arg-type]
        Message(b"k", key=b"k" * 3000),
        Message(b"k", key=b"k" * 8192),
        Message(b"k", key=b"\0\xff"),
        Message(b"k", key=""),
        Message(b"h", headers=[(f"h{n}", b"\0" * 8192) for n in range(64)]),
        Message(b"h", headers={"quotes ' \" \\ and\nnewlines": "ü\0"}),
    ]
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", settings=trunkline.TopicSettings(record_bytes_max=1000))
        await tl.publish_many("orders", messages, partition=0)
        records = await tl.read("orders")
        assert [record.payload for record in records] == [bytes(message.body) for message in messages]
        assert [record.key for record in records][4:8] == [b"k" * 3000, b"k" * 8192, b"\0\xff", b""]
        assert len(records[8].headers) == 64
        assert records[9].headers == (("quotes ' \" \\ and\nnewlines", b"\xc3\xbc\0"),)


async def test_numbers_and_times_that_cannot_be(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        for number in BAD_COUNTS:
            with pytest.raises(errors.InvalidArgument):
                await tl.create_topic("other", partitions=number)
            with pytest.raises(errors.InvalidArgument):
                await tl.read("orders", max_records=number)
        wrong_bytes: list[Any] = [0, -1, 1.5, True, "10"]
        for number in wrong_bytes:
            with pytest.raises(errors.InvalidArgument):
                await tl.read("orders", bytes_max=number)
            with pytest.raises(errors.InvalidArgument):
                tl.retention_host(interval_s=number if number != 1.5 else float("inf"))
        for partition in BAD_PARTITIONS:
            with pytest.raises(errors.InvalidArgument):
                await tl.read("orders", partition=partition)
        offsets: list[Any] = [2**63, 1.5, True, None, "10", "latest", b"start", float("nan")]
        for offset in offsets:
            with pytest.raises(errors.InvalidArgument):
                await tl.read("orders", offset=offset)
        for time in (datetime(2026, 1, 1), "2026-01-01", 0, None):
            with pytest.raises(errors.InvalidArgument):
                await tl.offset_at("orders", 0, time)  # type: ignore[arg-type]
        assert await tl.offset_at("orders", 0, datetime(1, 1, 1, tzinfo=UTC)) == 1
        assert await tl.offset_at("orders", 0, datetime(9999, 12, 31, tzinfo=UTC)) == 1
        with pytest.raises(errors.InvalidArgument):
            await tl.read("orders", offset=1, since=datetime.now(UTC))
        for many in (b"bytes", "text", 5, Message(b"x"), None):
            with pytest.raises(errors.InvalidArgument):
                await tl.publish_many("orders", many)  # type: ignore[arg-type]
        assert await tl.read("orders") == []


@pytest.mark.parametrize(
    "settings",
    [{"deadline_s": 0}, {"deadline_s": float("inf")}, {"connections_max": -1}, {"batch_records_max": 10_001},
     {"lock_timeout_s": float("nan")}, {"batch_bytes_max": 2**31}, {"retry_max_s": "1"}],
    ids=str,
)  # fmt: skip
async def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        ClientSettings(**settings)


async def test_use_after_close(db_url: str) -> None:
    tl = await trunkline.aio.connect(db_url)
    await tl.create_topic("orders")
    await tl.publish("orders", b"x")
    await tl.close()
    await tl.close()
    for call in (lambda: tl.publish("orders", b"x"), lambda: tl.read("orders"), tl.topics):
        with pytest.raises(errors.Closed) as caught:
            await call()
        assert caught.value.code == "TL031"
