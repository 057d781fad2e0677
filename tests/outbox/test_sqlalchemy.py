"""Publishing on sessions and connections of SQLAlchemy: with what the application writes or not at all, and readers are
woken by the session's commit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

import trunkline
from trunkline import Client, Message, PendingPosition, errors

pytestmark = pytest.mark.direct("the application's connections prepare statements, and its readers are to hear")

Reads = Callable[..., list[bytes]]
Rows = Callable[[], list[int]]
Heard = Callable[..., list[bytes]]


class Base(DeclarativeBase):
    pass


class Business(Base):
    __tablename__ = "business"
    id: Mapped[int] = mapped_column(primary_key=True)


def engine_of(url: str, **options: Any) -> Engine:
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1), poolclass=NullPool, **options)


@pytest.fixture
def engine(db_url: str) -> Iterator[Engine]:
    made = engine_of(db_url)
    yield made
    made.dispose()


def test_S4_01_the_row_and_the_record_of_a_session_commit_together_or_not_at_all(
    tl: Client, engine: Engine, payloads: Reads, rows: Rows
) -> None:
    with Session(engine) as session:
        session.add(Business(id=1))
        at = tl.publish("orders", b"undone", conn=session)
        session.rollback()
        assert (payloads(), rows()) == ([], [])
        session.add(Business(id=2))
        tl.publish("orders", b"two", conn=session)
        assert payloads() == []
        session.commit()
        assert (payloads(), rows()) == ([b"two"], [2])
        session.add_all([Business(id=2)])
        tl.publish("orders", b"undone", conn=session)
        with pytest.raises(IntegrityError):
            session.commit()
        with pytest.raises(errors.InvalidArgument, match="failed already"):
            tl.publish("orders", b"undone", conn=session)
    assert (payloads(), rows()) == ([b"two"], [2])
    assert isinstance(at, PendingPosition)


def test_S4_01_the_row_and_the_record_of_a_connection_commit_together_or_not_at_all(
    tl: Client, engine: Engine, payloads: Reads, rows: Rows
) -> None:
    insert = text("insert into business values (:id)")
    with engine.connect() as conn:
        conn.execute(insert, {"id": 1})
        tl.publish("orders", b"undone", conn=conn)
        conn.rollback()
        conn.execute(insert, {"id": 2})
        tl.publish("orders", b"two", conn=conn)
        conn.commit()
    with engine.begin() as conn:
        conn.execute(insert, {"id": 3})
        tl.publish("orders", b"three", conn=conn)
    assert (payloads(), rows()) == ([b"two", b"three"], [2, 3])


def test_savepoints_that_are_rolled_back_publish_nothing(tl: Client, engine: Engine, payloads: Reads) -> None:
    with Session(engine) as session, session.begin():
        undone = session.begin_nested()
        tl.publish("orders", b"undone", conn=session)
        undone.rollback()
        tl.publish("orders", b"a", conn=session)
        with session.begin_nested():
            tl.publish("orders", b"b", conn=session)
    with engine.begin() as conn:
        nested = conn.begin_nested()
        tl.publish("orders", b"undone", conn=conn)
        nested.rollback()
        tl.publish("orders", b"c", conn=conn)
    assert payloads() == [b"a", b"b", b"c"]


def test_many_records_keep_keys_headers_and_order(tl: Client, engine: Engine, payloads: Reads) -> None:
    tl.create_topic("many", partitions=2)
    given: list[Message | bytes] = [
        Message(b"\x00\\'", key=b"\xff\x00", headers=[("h", b"\x00"), ("h", "2")], partition=0),
        Message(b"", partition=0),
        Message(b"empty", headers=[], partition=0),
        Message(b"other", key="k", partition=1),
    ]
    with Session(engine) as session:
        pending = tl.publish_many("many", given, conn=session)
        assert tl.publish_many("many", [], conn=session) == []
        tl.publish_many("many", [b"%05d" % n for n in range(2_500)], partition=0, conn=session)
        tl.publish("many", b"last", headers=[], partition=0, conn=session)
        session.commit()
    records = tl.read("many", max_records=10_000)
    assert [(record.key, record.payload, record.headers) for record in records[:3]] == [
        (b"\xff\x00", b"\x00\\'", (("h", b"\x00"), ("h", b"2"))),
        (None, b"", ()),
        (None, b"empty", ()),
    ]
    assert [record.payload for record in records[3:]] == [*(b"%05d" % n for n in range(2_500)), b"last"]
    assert payloads("many", 1) == [b"other"]
    assert [position.partition for position in pending] == [0, 0, 0, 1]
    assert len({batch.transaction_id for batch in tl.read_batches("many")}) == 1


# -- what is refused --


def test_autocommit_is_refused_wherever_it_was_asked_for(tl: Client, db_url: str, engine: Engine) -> None:
    alone = engine_of(db_url, isolation_level="AUTOCOMMIT")
    with Session(alone) as session, pytest.raises(errors.InvalidArgument, match=r"autocommit.*begin one"):
        tl.publish("orders", b"x", conn=session)
    refused = pytest.raises(errors.InvalidArgument, match="autocommit")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn, refused:
        tl.publish("orders", b"x", conn=conn)
    with Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session, refused:
        tl.publish("orders", b"x", conn=session)
    assert tl.read("orders") == []


def test_transactions_that_cannot_write_are_refused(tl: Client, engine: Engine) -> None:
    with Session(engine) as session:
        with pytest.raises(DataError):
            session.execute(text("select 1 / 0"))
        with pytest.raises(errors.InvalidArgument, match="failed already"):
            tl.publish("orders", b"x", conn=session)
        session.rollback()
        session.execute(text("set transaction read only"))
        with pytest.raises(errors.ReadOnly, match="read-only transaction"):
            tl.publish("orders", b"x", conn=session)


def test_a_snapshot_that_is_older_than_the_log_fails_at_the_commit(tl: Client, engine: Engine, payloads: Reads) -> None:
    with Session(engine.execution_options(isolation_level="REPEATABLE READ")) as session:
        session.execute(text("select 1"))
        tl.publish("orders", b"lost", conn=session)
        tl.publish("orders", b"a")
        with pytest.raises(DBAPIError, match="READ COMMITTED") as failed:
            session.commit()
        assert getattr(failed.value.orig, "sqlstate", None) == "40001"
    assert payloads() == [b"a"]


def test_a_connection_to_another_database_is_noticed(tl: Client, make_database: Callable[[], str]) -> None:
    elsewhere = make_database()
    with trunkline.connect(elsewhere) as other:
        other.create_topic("orders")
        with Session(engine_of(elsewhere)) as session:
            with pytest.raises(errors.NotFound, match="another one"):
                tl.publish("orders", b"x", conn=session)
            session.rollback()
            session.execute(text("drop schema trunkline cascade"))
            with pytest.raises(errors.SchemaMissing):
                tl.publish("orders", b"x", conn=session)
    refused = pytest.raises(errors.InvalidArgument, match="sqlite, not to PostgreSQL")
    with Session(create_engine("sqlite://")) as session, refused:
        tl.publish("orders", b"x", conn=session)
    with Session(engine_of("postgresql://nobody@127.0.0.1:1/none")) as session, pytest.raises(errors.Unavailable):
        tl.publish("orders", b"x", conn=session)


def test_what_is_closed_or_no_connection_is_refused(tl: Client, engine: Engine, payloads: Reads) -> None:
    conn = engine.connect()
    conn.close()
    with pytest.raises(errors.Closed, match="conn is closed"):
        tl.publish("orders", b"x", conn=conn)
    session = Session(engine, close_resets_only=False)
    session.close()
    with pytest.raises(errors.InvalidArgument, match="permanently closed"):
        tl.publish("orders", b"x", conn=session)
    with Session(engine, autobegin=False) as session, pytest.raises(errors.InvalidArgument, match="Autobegin is"):
        tl.publish("orders", b"x", conn=session)
    nothing: Any
    for nothing in (engine, sessionmaker(engine), text("select 1")):
        with pytest.raises(errors.InvalidArgument, match="conn must be"):
            tl.publish("orders", b"x", conn=nothing)
    again = Session(engine)
    again.close()  # a session that was closed begins again
    tl.publish("orders", b"again", conn=again)
    again.commit()
    again.close()
    assert payloads() == [b"again"]


def test_the_servers_errors_come_through_with_their_next_step_and_without_the_records(
    tl: Client, engine: Engine
) -> None:
    tl.create_topic("short-lived")
    tl.publish("short-lived", b"known")
    with trunkline.connect(tl._pool._url) as other:
        other.delete_topic("short-lived")
    with Session(engine) as session, pytest.raises(errors.NotFound, match="database of the client") as refused:
        tl.publish("short-lived", b"secret", conn=session)
    assert "secret" not in str(refused.value)
    with Session(engine) as session, engine.connect() as other_conn:
        session.execute(text("set lock_timeout = '10ms'"))
        other_conn.execute(text("lock table trunkline.outbox_stage"))
        with pytest.raises(errors.Conflict):
            tl.publish("orders", b"x", conn=session)


def test_a_transaction_in_two_phases_is_refused(tl: Client, engine: Engine, payloads: Reads) -> None:
    conn = engine.connect()
    transaction = conn.begin_twophase()
    tl.publish("orders", b"x", conn=conn)
    with pytest.raises(DBAPIError, match="cannot be prepared"):
        transaction.prepare()
    conn.invalidate()  # psycopg cannot roll back what was not prepared
    conn.close()
    assert payloads() == []


# -- who is woken --


def test_the_commit_of_a_session_wakes_readers_in_every_transaction(tl: Client, engine: Engine, heard: Heard) -> None:
    """Also where the one before was rolled back, and where a savepoint was released before the commit."""
    with Session(engine) as session:
        for number in range(3):
            tl.publish("orders", b"%d" % number, conn=session)
            session.commit()
            assert heard() == [b"%d" % number]
        tl.publish("orders", b"undone", conn=session)
        session.rollback()
        with session.begin_nested():
            tl.publish("orders", b"nested", conn=session)
        assert heard(wait_s=0.5) == []  # whoever was woken too early has looked by now
        session.commit()
        assert heard() == [b"nested"]


def test_every_client_of_a_session_wakes_the_readers_of_its_own_topics(
    tl: Client, db_url: str, engine: Engine, heard: Heard
) -> None:
    with Session(engine) as session, trunkline.connect(db_url) as other:
        other.create_topic("other")
        for number in range(2):
            other.publish("other", b"x", conn=session)
            tl.publish("orders", b"%d" % number, conn=session)
            session.commit()
            assert heard() == [b"%d" % number]
        tl.publish("orders", b"first", conn=session)
        other.publish("other", b"x", conn=session)
        session.commit()
        assert heard() == [b"first"]


def test_a_scoped_session_wakes_readers(tl: Client, engine: Engine, heard: Heard) -> None:
    registry = scoped_session(sessionmaker(engine))
    for payload in (b"a", b"b"):
        tl.publish("orders", payload, conn=registry)
        tl.publish("orders", payload + b"!", conn=registry())  # the same session, named otherwise
        registry.commit()
        assert heard() == [payload, payload + b"!"]
        registry.remove()


def test_one_client_serves_the_sessions_of_many_threads(tl: Client, engine: Engine, payloads: Reads) -> None:
    def write(writer: int) -> None:
        with Session(engine) as session:
            for number in range(20):
                tl.publish("orders", b"%d %d" % (writer, number), conn=session)
                session.commit() if number % 2 else session.rollback()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    seen = payloads()
    for writer in range(8):
        own = [payload for payload in seen if payload.startswith(b"%d " % writer)]
        assert own == [b"%d %d" % (writer, number) for number in range(1, 20, 2)]


def test_who_commits_on_a_connection_rings_himself(tl: Client, engine: Engine, heard: Heard) -> None:
    with engine.begin() as conn:
        tl.publish("orders", b"a", conn=conn)
    tl.ring("orders")
    assert heard() == [b"a"]
    session: Any = Session(engine)
    with pytest.raises(errors.InvalidArgument, match=r"is for a connection of psycopg"), tl.transaction(session):
        pass


def test_a_session_is_told_once_and_is_not_kept_alive(tl: Client, engine: Engine, payloads: Reads) -> None:
    session = Session(engine)
    for _ in range(3):
        tl.publish("orders", b"x", conn=session)
    assert len(session.info["trunkline_after_commit"]) == 1
    session.commit()
    assert session.info["trunkline_after_commit"] == []
    tl.publish("orders", b"undone", conn=session)
    session.close()
    gone: weakref.ref[Session] = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    assert len(tl._outbox._unrung) == 0
    conn: Connection = engine.connect()
    tl.publish("orders", b"undone", conn=conn)
    conn.close()
    del conn
    gc.collect()
    assert len(tl._outbox._unrung) == 0
