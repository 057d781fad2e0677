"""Connections of the libraries that applications use, and readers that only a ring can wake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import trunkline
from tests.concurrency.conftest import seed as seed
from tests.concurrency.conftest import start_server as start_server
from tests.concurrency.sessions import Sessions, opened
from trunkline import Client

TABLE = "create table public.business (id integer primary key)"

Reads = Callable[..., list[bytes]]


@pytest.fixture
def tl(db_url: str) -> Iterator[Client]:
    """A client of a database that has a topic ``orders`` with one partition, and a table of the application's."""
    with psycopg.connect(db_url) as connection:
        connection.execute(TABLE)
    with trunkline.connect(db_url) as client:
        client.create_topic("orders")
        yield client


@pytest.fixture
def payloads(tl: Client) -> Reads:
    """What is in a partition of ``orders``, or of another topic."""

    def read(topic: str = "orders", partition: int = 0) -> list[bytes]:
        return [record.payload for record in tl.read(topic, partition=partition, max_records=100_000)]

    return read


@pytest.fixture
def rows(direct_url: str) -> Iterator[Callable[[], list[int]]]:
    """The ids in the application's table that are committed."""
    with psycopg.connect(direct_url, autocommit=True) as connection:
        yield lambda: [row[0] for row in connection.execute("select id from public.business order by 1").fetchall()]


@pytest.fixture
def sessions(db_url: str) -> Iterator[Sessions]:
    """Opens sessions that can be left waiting."""
    with opened(db_url) as made:
        yield made


@pytest.fixture
def heard(db_url: str, tl: Client) -> Iterator[Callable[..., list[bytes]]]:
    """The next records of ``orders`` that a reader was woken for. Its poll interval is far longer than a test may take:
    only a ring can end its wait."""
    with trunkline.connect(db_url, settings=trunkline.ClientSettings(poll_max_s=500.0)) as listening:
        consumer: Any
        with listening.consumer("orders", group="hears", create=True, start="latest") as consumer:
            assert consumer.poll() == []
            yield lambda wait_s=60.0: [record.payload for record in consumer.poll(wait_s=wait_s)]
