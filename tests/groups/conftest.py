"""Seeds that are printed and servers that may be killed, as in tests/concurrency; a group to begin with; a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import trunkline
from tests.concurrency.conftest import seed as seed
from tests.concurrency.conftest import start_server as start_server
from tests.concurrency.proxy import Proxy, as_if_direct, between
from tests.groups.scene import Admin


@pytest.fixture
def admin(db_url: str) -> Iterator[Admin]:
    """A session that looks on, and does what an administrator does. The topic ``t`` has five records, the group ``g``
    reads it, and a table takes effects."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("t")
        tl.publish_many("t", [b"1", b"2", b"3", b"4", b"5"])
        tl.create_group("g", "t")
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute('create table public.effect ("offset" bigint)')
        yield connection


@pytest.fixture
def proxied(db_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database and the URL through it; clients do not notice it."""
    with between(db_url) as (proxy, url):
        as_if_direct(proxy, monkeypatch)
        yield proxy, url
