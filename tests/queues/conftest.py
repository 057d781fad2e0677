"""Queues in the file's own database, sessions that can be left waiting, printed seeds, servers to be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.concurrency.conftest import EMPTY, OTHERS
from tests.concurrency.conftest import module_url as module_url
from tests.concurrency.conftest import seed as seed
from tests.concurrency.conftest import sessions as sessions
from tests.concurrency.conftest import start_server as start_server
from tests.concurrency.sessions import Sessions
from tests.queues.driver import Clock, Queue
from tests.queues.parties import Party

MakeQueue = Callable[..., Queue]


@pytest.fixture
def db_url(module_url: str) -> Iterator[str]:
    """The file's database, without topics and queues."""
    yield module_url
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute(OTHERS, [connection.info.backend_pid])
        for statement in (*EMPTY, "select trunkline.queue_drop_old()"):
            connection.execute(statement.encode())


@pytest.fixture
def make_queue(db_url: str) -> Iterator[MakeQueue]:
    """Makes topics with a queue; what they have opened is closed after the test."""
    made: list[Queue] = []

    def make(**settings: Any) -> Queue:
        made.append(Queue(db_url, **settings))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    """A topic ``t`` of one partition and its queue ``q``, whose claims are held for ten seconds."""
    return make_queue(ack_deadline_s=10.0)


@pytest.fixture
def clock(db_url: str) -> Iterator[Clock]:
    """Time that passes only where a test says so."""
    with psycopg.connect(db_url, autocommit=True) as connection:
        yield Clock(connection)


@pytest.fixture
def party(queue: Queue, sessions: Sessions) -> Callable[[str], Party]:
    return lambda name: Party(queue, sessions, name)
