"""Publishing on connections of Django: with what the application writes or not at all, and readers are woken by its
on_commit."""

from __future__ import annotations

import asyncio
import io
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import trunkline.aio
from tests.outbox.django_project import Business, Views, lead_to
from trunkline import Client, Message, errors

# isort: split
from django.core.cache import cache
from django.db import DataError, IntegrityError, OperationalError, connection, connections, transaction
from django.test import Client as Browser
from django.test import TestCase

pytestmark = pytest.mark.direct("the application's readers are to hear")

Reads = Callable[..., list[bytes]]
Rows = Callable[[], list[int]]
Heard = Callable[[], list[bytes]]


@pytest.fixture(autouse=True)
def project(tl: Client, db_url: str) -> Iterator[None]:
    """The project's connections lead to the test's database."""
    lead_to(db_url)
    lead_to(db_url, "second")
    Views.client = tl
    yield
    Views.client = None
    connections.close_all()


def undo(tl: Client, conn: Any, **options: Any) -> None:
    """Publish in a block that is rolled back."""
    with transaction.atomic(using=conn.alias, **options):
        tl.publish("orders", b"undone", conn=conn)
        raise ZeroDivisionError


def test_S4_01_the_row_and_the_record_commit_together_or_not_at_all(tl: Client, payloads: Reads, rows: Rows) -> None:
    with pytest.raises(ZeroDivisionError):
        undo(tl, connection)
    with transaction.atomic():
        Business.objects.create(id=1)
        tl.publish("orders", b"one", conn=connection)
        assert payloads() == []
    with transaction.atomic(using="second", durable=True):
        Business.objects.using("second").create(id=2)
        tl.publish("orders", b"two", conn=connections["second"])
    with transaction.atomic():
        tl.publish("orders", b"undone", conn=connection)
        with pytest.raises(IntegrityError):
            Business.objects.create(id=1)
        transaction.set_rollback(True)
    assert (payloads(), rows()) == ([b"one", b"two"], [1, 2])


def test_S4_01_a_request_that_is_a_transaction_publishes_or_not_with_it(
    tl: Client, payloads: Reads, rows: Rows, heard: Heard
) -> None:
    browser = Browser(raise_request_exception=False)
    assert browser.post("/order/1?fail").status_code == 500
    assert browser.post("/order/2").status_code == 200
    assert heard() == [b"2"]
    assert (payloads(), rows()) == ([b"2"], [2])


def test_blocks_inside_that_are_rolled_back_publish_nothing(tl: Client, payloads: Reads) -> None:
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError):
            undo(tl, connection)
        tl.publish("orders", b"a", conn=connection)
        with transaction.atomic():
            tl.publish("orders", b"b", conn=connection)
        with transaction.atomic(savepoint=False):
            tl.publish("orders", b"c", conn=connection)
        savepoint = transaction.savepoint()
        tl.publish("orders", b"undone", conn=connection)
        transaction.savepoint_rollback(savepoint)
    assert payloads() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("server_side_binding", [False, True])
def test_many_records_keep_keys_headers_and_order(tl: Client, db_url: str, server_side_binding: bool) -> None:
    connections.settings["default"]["OPTIONS"] = {"server_side_binding": server_side_binding}
    given: list[Message | bytes] = [
        Message(b"\x00\\'%s", key=b"\xff\x00", headers=[("h", b"\x00"), ("h%", "2")]),
        b"",
        Message(b"empty", headers=[]),
    ]
    with transaction.atomic():
        tl.publish_many("orders", given, conn=connection)
        tl.publish_many("orders", [b"%05d" % n for n in range(2_500)], conn=connection)
        tl.publish("orders", b"last", headers=[], key="k", conn=connection)
    records = tl.read("orders", max_records=10_000)
    assert [(record.key, record.payload, record.headers) for record in records[:3]] == [
        (b"\xff\x00", b"\x00\\'%s", (("h", b"\x00"), ("h%", b"2"))),
        (None, b"", ()),
        (None, b"empty", ()),
    ]
    assert [record.payload for record in records[3:]] == [*(b"%05d" % n for n in range(2_500)), b"last"]


def test_constraints_that_are_made_immediate_lose_nothing(tl: Client, payloads: Reads) -> None:
    """As Django itself does at the end of every TestCase."""
    with transaction.atomic():
        tl.publish("orders", b"a", conn=connection)
        connection.check_constraints()
        tl.publish("orders", b"b", conn=connection)
    assert payloads() == [b"a", b"b"]


def test_a_test_case_of_django_publishes_and_takes_it_back(tl: Client, payloads: Reads) -> None:
    told: list[int] = []

    class Case(TestCase):  # type: ignore[misc]
        def test_it(self) -> None:
            with self.captureOnCommitCallbacks(execute=True) as callbacks:
                tl.publish("orders", b"a", conn=connection)
                tl.publish("orders", b"b", conn=connection)
            told.append(len(callbacks))

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Case)
    result = unittest.TextTestRunner(io.StringIO()).run(suite)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    assert told == [1], "one callback a transaction"
    assert payloads() == []


# -- what is refused --


def test_a_connection_outside_of_a_block_is_refused(tl: Client, payloads: Reads) -> None:
    for conn in (connection, connections["second"]):
        with pytest.raises(errors.InvalidArgument, match=r"autocommit.*transaction\.atomic"):
            tl.publish("orders", b"x", conn=conn)
    transaction.set_autocommit(False)
    tl.publish("orders", b"by hand", conn=connection)
    transaction.rollback()
    tl.publish("orders", b"by hand", conn=connection)
    transaction.commit()
    transaction.set_autocommit(True)
    assert payloads() == [b"by hand"]


def test_transactions_that_cannot_write_are_refused(tl: Client) -> None:
    with transaction.atomic():
        with pytest.raises(DataError), connection.cursor() as cursor:
            cursor.execute("select 1 / 0")
        with pytest.raises(errors.InvalidArgument, match="failed already"):
            tl.publish("orders", b"x", conn=connection)
        transaction.set_rollback(True)
        with pytest.raises(errors.InvalidArgument, match="failed already"):
            tl.publish("orders", b"x", conn=connection)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("set transaction read only")
        with pytest.raises(errors.ReadOnly, match="read-only transaction"):
            tl.publish("orders", b"x", conn=connection)
        transaction.set_rollback(True)
    with transaction.atomic():
        connection.close()
        with pytest.raises((errors.InvalidArgument, errors.Unavailable)):
            tl.publish("orders", b"x", conn=connection)
    assert tl.read("orders") == []


def test_a_snapshot_that_is_older_than_the_log_fails_at_the_commit(tl: Client, payloads: Reads) -> None:
    block = transaction.atomic()
    block.__enter__()
    with connection.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select 1")
    tl.publish("orders", b"lost", conn=connection)
    tl.publish("orders", b"a")
    with pytest.raises(OperationalError, match="READ COMMITTED") as failed:
        block.__exit__(None, None, None)
    assert getattr(failed.value.__cause__, "sqlstate", None) == "40001"
    assert payloads() == [b"a"]


def test_a_connection_to_another_database_is_noticed(tl: Client, make_database: Callable[[], str]) -> None:
    elsewhere = make_database()
    lead_to(elsewhere, "second")
    conn = connections["second"]
    with trunkline.connect(elsewhere) as other:
        other.create_topic("orders")
    with transaction.atomic(using="second"):
        with pytest.raises(errors.NotFound, match=r"another one.*database of the client") as refused:
            tl.publish("orders", b"secret", conn=conn)
        transaction.set_rollback(True, using="second")
    assert "secret" not in str(refused.value)
    with transaction.atomic(using="second"):
        with conn.cursor() as cursor:
            cursor.execute("drop schema trunkline cascade")
        with pytest.raises(errors.SchemaMissing):
            tl.publish("orders", b"x", conn=conn)
        transaction.set_rollback(True, using="second")
    with pytest.raises(errors.InvalidArgument, match="sqlite, not to PostgreSQL"), transaction.atomic(using="lite"):
        tl.publish("orders", b"x", conn=connections["lite"])
    nothing: Any
    for nothing in (connections, cache, Business(id=1), Business.objects):
        with pytest.raises(errors.InvalidArgument, match="conn must be"):
            tl.publish("orders", b"x", conn=nothing)


def test_a_connection_belongs_to_its_thread(tl: Client, payloads: Reads) -> None:
    """``django.db.connection`` is another one in each thread; one that is handed over is refused."""
    with transaction.atomic(), ThreadPoolExecutor(1) as thread:
        handed_over = connections["default"]
        with pytest.raises(errors.InvalidArgument, match=r"Django refuses.*thread"):
            thread.submit(tl.publish, "orders", b"x", conn=handed_over).result()
        with pytest.raises(errors.InvalidArgument, match="autocommit"):
            thread.submit(tl.publish, "orders", b"x", conn=connection).result()
        thread.submit(connections.close_all).result()
        tl.publish("orders", b"a", conn=connection)
    assert payloads() == [b"a"]


def test_an_async_client_refuses_it(db_url: str) -> None:
    async def publish() -> None:
        async with trunkline.aio.connect(db_url) as tl:
            await tl.publish("orders", b"x", conn=connection)

    with pytest.raises(errors.InvalidArgument, match="for the client of `trunkline`"):
        asyncio.run(publish())


# -- who is woken --


def test_every_commit_wakes_readers_once(tl: Client, heard: Heard) -> None:
    """Whether the connection is given by its name or as it is."""
    for number in range(3):
        with transaction.atomic():
            tl.publish("orders", b"a%d" % number, conn=connection)
            tl.publish("orders", b"b%d" % number, conn=connections["default"])
            assert len(connection.run_on_commit) == 1
        assert heard() == [b"a%d" % number, b"b%d" % number]


def test_readers_are_woken_where_the_first_to_publish_was_rolled_back(tl: Client, heard: Heard) -> None:
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError):
            undo(tl, connection)
        with transaction.atomic():
            tl.publish("orders", b"a", conn=connection)
        tl.publish("orders", b"b", conn=connection)
        assert len(connection.run_on_commit) == 1
    assert heard() == [b"a", b"b"]
    with pytest.raises(ZeroDivisionError):
        undo(tl, connection)
    with transaction.atomic():
        tl.publish("orders", b"c", conn=connection)
    assert heard() == [b"c"]


def test_every_client_of_a_connection_wakes_readers(tl: Client, db_url: str, heard: Heard) -> None:
    with trunkline.connect(db_url) as other, transaction.atomic():
        other.create_topic("other")
        other.publish("other", b"x", conn=connection)
        tl.publish("orders", b"a", conn=connection)
        assert len(connection.run_on_commit) == 2
    assert heard() == [b"a"]
