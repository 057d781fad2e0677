"""The worker: an App that is configured by a file, and nothing more.

    topic: orders
    group: user-query
    handler: shop.queries:update

Read and checked here, with the line of whatever is wrong; the handler is imported by whoever runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast, get_args

import msgspec

from trunkline.client import target
from trunkline.client.aio.app import CONCURRENCY_MAX
from trunkline.client.aio.app import App as AsyncApp
from trunkline.client.aio.topics import PARTITIONS_MAX
from trunkline.client.sync.app import App
from trunkline.client.sync.client import Client
from trunkline.engine.checks import check_group_name, check_topic_name
from trunkline.errors import InvalidArgument
from trunkline.nearest import nearest_name
from trunkline.nodes import Block, Value, read
from trunkline.settings import ClientSettings, HandlerSettings

WorkerDelivery = Literal["at_least_once", "exactly_once"]
NEEDS = "a worker needs topic, group and handler, see docs/outbox-worker.md"
BATCH_MAX = 10_000

_KEYS = (
    *("url", "topic", "topics", "group", "handler", "delivery", "concurrency", "create", "start", "dead_letter"),
    *("batch_size", "total_partitions", "partition", "wait_s", "max_attempts", "handler_timeout_s"),
)
_ELSEWHERE = {
    "groupId": "group",
    "batchSize": "batch_size",
    "totalPartitions": "total_partitions",
    "partitionId": "partition",
    "waitPeriodMs": "wait_s, in seconds: 10000 ms is wait_s: 10",
}
"""What these are called in the files of the consumers that this one takes the place of."""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file. ``partition`` None: whatever the group gives it. The URL may hold a password."""

    file: str
    topics: tuple[str, ...]
    group: str
    handler: str
    url: str | None = None
    delivery: WorkerDelivery = "at_least_once"
    concurrency: int = 1
    create: bool = False
    start: Literal["earliest", "latest"] = "earliest"
    dead_letter: str | None = None
    batch_size: int = 100
    total_partitions: int | None = None
    partition: int | None = None
    wait_s: float = 1.0
    max_attempts: int = 5
    handler_timeout_s: float = 300.0

    def __repr__(self) -> str:
        return f"<trunkline worker of {self.file}>"

    @property
    def module(self) -> str:
        return self.handler.partition(":")[0]

    @property
    def function(self) -> str:
        return self.handler.partition(":")[2]


def load(path: Path) -> Worker:
    """Read a file. InvalidArgument names the file, the line and the key; NotFound where there is no file."""
    top = Block(read(path, "worker", NEEDS))
    for name in top.names:
        if name in _ELSEWHERE:
            raise top.place_of(name).error(f"{name!r} is called {_ELSEWHERE[name]} here")
        if name not in _KEYS:
            raise top.place_of(name).error(f"a worker has no {name!r}; {nearest_name(name, _KEYS)}")
    group = top.get("group", "group: user-query")
    worker = Worker(
        file=str(path),
        topics=_topics(top),
        group=_checked(group, _text(group), check_group_name),
        handler=_handler(top.get("handler", "handler: package.module:function")),
        **{name: take(value) for name, take in _TAKEN.items() if (value := top.find(name)) is not None},
    )
    _check_partition(top, worker)
    if worker.delivery == "exactly_once" and worker.concurrency != 1:
        raise top.place_of("concurrency").error("exactly_once handles one record after the other: leave it out")
    if worker.dead_letter in worker.topics:
        raise top.place_of("dead_letter").error("records that fail would come back at once: it is what is read")
    return worker


def _topics(top: Block) -> tuple[str, ...]:
    kind = top.one_of(("topic", "topics"), "a worker")
    value = top.get(kind, "")
    names = value.texts() if kind == "topics" else [_text(value)]
    return tuple(_checked(value, name, check_topic_name) for name in names)


def _text(value: Value) -> str:
    return value.text().value


def _checked(value: Value, text: str, check: Callable[[str], object]) -> str:
    try:
        check(text)
    except InvalidArgument as error:
        raise value.place.error(error) from None
    return text


def _handler(value: Value) -> str:
    text = _text(value)
    module, colon, function = text.partition(":")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise value.place.error(f"{text!r} is no handler: write package.module:function")
    return text


def _whole(value: Value, *, least: int = 1, most: int) -> int:
    found = value.whole(least=least)
    if found > most:
        raise value.place.error(f"must be at most {most}, not {found}")
    return found


def _partition(value: Value) -> int | None:
    if value.is_text:
        value.choice("auto")
        return None
    return _whole(value, least=0, most=PARTITIONS_MAX - 1)


_TAKEN: dict[str, Callable[[Value], Any]] = {
    "url": lambda value: _checked(value, _text(value), target.parse),
    "delivery": lambda value: value.choice(*get_args(WorkerDelivery)),
    "concurrency": lambda value: _whole(value, most=CONCURRENCY_MAX),
    "create": Value.switch,
    "start": lambda value: value.choice("earliest", "latest"),
    "dead_letter": lambda value: _checked(value, _text(value), check_topic_name),
    "batch_size": lambda value: _whole(value, most=BATCH_MAX),
    "total_partitions": lambda value: _whole(value, most=PARTITIONS_MAX),
    "partition": _partition,
    "wait_s": Value.seconds,
    "max_attempts": lambda value: _whole(value, most=1_000_000),
    "handler_timeout_s": Value.seconds,
}


def _check_partition(top: Block, worker: Worker) -> None:
    if worker.partition is not None and worker.partition >= (worker.total_partitions or PARTITIONS_MAX):
        raise top.place_of("partition").error(
            f"partition {worker.partition} is not one of {worker.total_partitions}: they count from 0, so the last is "
            f"{(worker.total_partitions or PARTITIONS_MAX) - 1}; or write auto"
        )


def check_topics(worker: Worker, client: Client) -> None:
    """Refuse a file that counts other partitions than its topics have."""
    for name in worker.topics:
        topic = client.topic(name)
        if worker.total_partitions not in (None, topic.partitions):
            more = (worker.total_partitions or 0) > topic.partitions
            way = (
                f"or run: trunkline topic add-partitions {name} {worker.total_partitions}"
                if more
                else "or leave it out"
            )
            raise InvalidArgument(
                f"{worker.file}: total_partitions is {worker.total_partitions}, and topic {name} has "
                f"{topic.partitions} partitions; correct the file, {way}"
            )
        if worker.partition is not None and worker.partition >= topic.partitions:
            raise InvalidArgument(
                f"{worker.file}: partition is {worker.partition}, and topic {name} has {topic.partitions}, 0 to "
                f"{topic.partitions - 1}; correct the file"
            )


def app_of(worker: Worker, function: Callable[..., Any]) -> App | AsyncApp:
    """The app that the file describes, of the world that the function belongs to."""
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    settings = msgspec.structs.replace(ClientSettings.from_environment(), poll_max_s=worker.wait_s)
    app = (AsyncApp if is_async else App)(settings=settings)
    add = app.on(
        worker.topics,
        group=worker.group,
        concurrency=worker.concurrency,
        create=worker.create,
        delivery=worker.delivery,
        dead_letter=worker.dead_letter,
        settings=HandlerSettings(
            max_attempts=worker.max_attempts,
            handler_timeout_s=worker.handler_timeout_s,
            in_hand_max=worker.batch_size,
            batch_records_max=worker.batch_size,
            start=worker.start,
            partitions=None if worker.partition is None else (worker.partition,),
        ),
    )
    cast("Callable[[Any], Any]", add)(function)
    return app
