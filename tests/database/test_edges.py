"""What is rare: producers that expire, tables that were damaged, arguments that were made up, the largest numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import trunkline
from tests.database.test_sql_functions import append
from trunkline.client.install import upgrade
from trunkline.errors import LogBroken, OffsetOutOfRange
from trunkline.sql import script

ROLL = "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic"


@pytest.fixture
def connection(db_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(db_url, autocommit=True) as opened:
        opened.execute("select trunkline.topic_create('orders', 3)")
        yield opened


def later(connection: psycopg.Connection[Any], days: int) -> None:
    connection.execute(
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe"
        f" as $$ select pg_catalog.clock_timestamp() + interval '{days} days' $$"
    )


def expire(connection: psycopg.Connection[Any]) -> int:
    """Forget who can be forgotten; how many are left."""
    connection.execute("select trunkline.producer_expire()")
    row = connection.execute("select count(*) from trunkline.producer").fetchone()
    assert row is not None
    return int(row[0])


def refused(connection: psycopg.Connection[Any], statement: str = "", **changes: Any) -> str | None:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode()) if statement else append(connection, **changes)
    return caught.value.sqlstate


def test_a_producer_is_known_while_its_batches_are_in_a_segment_that_is_not_sealed(
    connection: psycopg.Connection[Any],
) -> None:
    """Epoch 0 was fenced off by epoch 1; days later it still is, and a retry is still answered. Sealed and a day old,
    both are forgotten, and the next sequence is refused until a new epoch begins."""
    producer = uuid4()
    append(connection, producer=producer, epoch=0, sequences=[1])
    assert append(connection, producer=producer, epoch=1, sequences=[1]) == [3]
    append(connection)
    later(connection, 2)
    assert expire(connection) == 2
    assert refused(connection, producer=producer, epoch=0, sequences=[2]) == "TL007"
    assert append(connection, producer=producer, epoch=1, sequences=[1]) == [3]
    connection.execute(ROLL)
    connection.execute("select trunkline.segment_seal(1)")
    later(connection, 4)
    assert expire(connection) == 0
    assert refused(connection, producer=producer, epoch=1, sequences=[2]) == "TL009"
    assert append(connection, producer=producer, epoch=2, sequences=[1]) == [7]


def test_the_last_sequence_of_an_epoch_can_be_repeated(connection: psycopg.Connection[Any]) -> None:
    producer, last = uuid4(), 2**31 - 1
    append(connection, producer=producer, epoch=0, sequences=[1])
    connection.execute("update trunkline.segment_1 set producer_sequence = %s", [last - 1])
    assert append(connection, producer=producer, epoch=0, sequences=[last]) == [3]
    assert append(connection, producer=producer, epoch=0, sequences=[last]) == [3]


@pytest.mark.parametrize(
    ("damage", "start"),
    [
        ("delete from trunkline.segment_1 where first_offset = 3", 1),
        ("delete from trunkline.segment_1 where first_offset = 1", 1),
        ("delete from trunkline.segment_1 where first_offset >= 5", 1),
        ("delete from trunkline.segment_1 where first_offset >= 5", 5),
        ("delete from trunkline.segment_2 where first_offset = 7", 7),
        ("delete from trunkline.segment_2 where first_offset = 7", 1),
        ("delete from trunkline.segment_1 where record_count = 0", 1),
    ],
)
def test_a_read_of_a_damaged_log_is_an_error_and_never_fewer_records(
    connection: psycopg.Connection[Any], db_url: str, damage: str, start: int
) -> None:
    """Offsets 1 to 6 in a segment that was closed behind them, 7 to 10 in the next; somebody deleted rows."""
    for _ in range(3):
        append(connection)
    connection.execute(ROLL)
    append(connection)
    append(connection)
    with trunkline.connect(db_url) as tl:
        assert len(tl.read("orders", offset=start)) == 11 - start
        connection.execute(damage.encode())
        with pytest.raises(LogBroken):
            tl.read("orders", offset=start)


def test_a_topic_whose_table_is_gone_can_be_deleted(connection: psycopg.Connection[Any], db_url: str) -> None:
    append(connection)
    connection.execute("drop table trunkline.segment_1")
    with trunkline.connect(db_url) as tl:
        tl.delete_topic("orders")
        assert tl.topics() == []


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2, -(2**63)])
def test_the_largest_offset_is_outside_the_log(connection: psycopg.Connection[Any], db_url: str, offset: int) -> None:
    append(connection)
    with trunkline.connect(db_url) as tl, pytest.raises(OffsetOutOfRange):
        tl.read("orders", offset=offset, max_records=2**31 - 1)


def test_a_read_without_a_limit_to_speak_of_looks_for_nothing_behind_the_log(
    connection: psycopg.Connection[Any], db_url: str
) -> None:
    """Runs of single records are read in pieces, of which there are millions up to the largest limits."""
    with trunkline.connect(db_url) as tl:
        for _ in range(100):
            tl.publish("orders", b"x", partition=0)
    connection.execute("set statement_timeout = '5s'")
    read = "select sum(record_count) from trunkline.log_read(1, 0, 1, 2147483647, 1::bigint << 60, true)"
    assert connection.execute(read).fetchone() == (100,)


def test_runs_of_small_records_count_all_their_bytes(connection: psycopg.Connection[Any], db_url: str) -> None:
    """Their keys are most of them: a limit of bytes holds all the same, give or take a batch."""
    with trunkline.connect(db_url) as tl:
        for _ in range(200):
            tl.publish("orders", b"", key=b"k" * 1500, partition=0)
        batches = tl.read_batches("orders", max_records=1000, bytes_max=150_000)
        assert 64 <= sum(len(batch) for batch in batches) <= 100


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        ("1, null, 1, null, '[0:0]={x}'::bytea[], null, null, null, null, null, null", "TL001"),
        ("1, null, 1, '[0:0]={k}'::bytea[], '{x}', null, null, null, null, null, null", "TL001"),
        ("1, null, 1, '{{k}}'::bytea[], '{x}', null, null, null, null, null, null", "TL001"),
        ("1, null, 0, null, '{}', null, null, null, null, null, null", "TL001"),
        ("1, null, 5, null, '{x}', null, null, null, null, null, null", "TL001"),
        ("1, 2, 1, '{k}', '{x}', null, null, null, null, null, null", "TL012"),
        ("99, null, 1, null, '{x}', null, null, null, null, null, null", "TL002"),
        ("1, null, 0, null, '{}', null, null, null, null, null, null, true", "42883"),
    ],
)
def test_made_up_arguments_of_a_segments_function_are_refused(
    connection: psycopg.Connection[Any], arguments: str, state: str
) -> None:
    """The way of our own client, walked by somebody else: on an empty partition, and on one that has a batch."""
    for _ in range(2):
        assert refused(connection, f"select trunkline.segment_1_append({arguments})") == state
        append(connection)
    assert append(connection) == [5]


def test_batches_with_many_keys_stay_within_the_limit_of_each(connection: psycopg.Connection[Any], db_url: str) -> None:
    """All keys of a batch are longer than one may be; that is fine, and one that is too long is not."""
    with trunkline.connect(db_url) as tl:
        keyed = [trunkline.Message(b"x", key=b"%0100d" % n) for n in range(1000)]
        assert len(tl.publish_many("orders", keyed)) == 1000
    for _ in range(2):
        assert refused(connection, keys=[b"k" * 8192, b"k" * 8193]) == "TL004"
        append(connection, keys=[b"k" * 8192, b"k" * 8192])


def test_an_upgrade_waits_for_a_roll_that_is_under_way(connection: psycopg.Connection[Any], db_url: str) -> None:
    """Both make the functions of segments anew: one after the other, and everything works afterwards."""
    append(connection)
    with psycopg.connect(db_url) as rolling:
        rolling.execute(ROLL)
        upgrading = threading.Thread(target=upgrade, args=[db_url])
        upgrading.start()
        waiting = "select from pg_locks where locktype = 'advisory' and not granted"
        while connection.execute(waiting, prepare=False).fetchone() is None:
            assert upgrading.is_alive()
        rolling.commit()
        upgrading.join()
    assert append(connection) == [3]
    connection.execute(ROLL)
    assert append(connection) == [5]


def test_an_upgrade_waits_for_a_drop_that_is_under_way(connection: psycopg.Connection[Any], db_url: str) -> None:
    """Both drop routines of segments: neither meets one that the other has dropped."""
    connection.execute(ROLL)
    append(connection)
    connection.execute("select trunkline.segment_seal(1)")
    connection.execute("select trunkline.topic_alter(name, '{\"retention_bytes\": 0}') from trunkline.topic")
    connection.execute("select trunkline.retention_release(1)")
    with psycopg.connect(db_url) as dropping:
        dropping.execute("select trunkline.segment_drop(1)")
        upgrading = threading.Thread(target=upgrade, args=[db_url])
        upgrading.start()
        waiting = "select from pg_locks where not granted and locktype = 'transactionid'"
        while connection.execute(waiting, prepare=False).fetchone() is None:
            assert upgrading.is_alive()
        dropping.commit()
        upgrading.join()
    assert connection.execute("select to_regproc('trunkline.segment_1_read')").fetchone() == (None,)
    connection.execute("select 'trunkline.segment_2_read'::regproc, 'trunkline.log_read'::regproc")
    append(connection)


def test_a_publish_that_moves_its_partition_and_an_upgrade_do_not_wait_for_each_other(
    connection: psycopg.Connection[Any], db_url: str
) -> None:
    """It looks at the row of the open segment; when it waited, the functions that it was in were gone afterwards."""
    append(connection)
    connection.execute(ROLL)
    connection.execute("set lock_timeout = '2s'")
    with psycopg.connect(db_url) as upgrading:
        upgrading.execute(script.install_script(script.schema_version()).encode())
        assert append(connection) == [3]
    connection.execute(ROLL)
    with psycopg.connect(db_url) as publishing, psycopg.connect(db_url) as upgrading:
        assert append(publishing) == [5]
        brief = script.install_script(script.schema_version()).replace("lock_timeout = '30s'", "lock_timeout = '2s'")
        upgrading.execute(brief.encode())


def test_a_segment_that_is_sealed_is_read_and_not_committed_to(
    connection: psycopg.Connection[Any], db_url: str
) -> None:
    """An upgrade drops routines in one transaction, with a lock for each: 2,000 segments have to fit. What is needed no
    more goes with the seal, and does not come back."""
    append(connection)
    connection.execute(ROLL)
    connection.execute("select 'trunkline.segment_1_take'::regproc")
    connection.execute("select trunkline.segment_seal(1)")
    routines = "select proname from pg_proc where proname like 'segment~_1~_%%' escape '~' order by 1"
    assert connection.execute(routines).fetchall() == [("segment_1_append",), ("segment_1_read",)]
    assert connection.execute(READ_ALL).fetchone() == (2, 1)
    upgrade(db_url)
    assert connection.execute(routines).fetchall() == [("segment_1_read",)]
    assert connection.execute(READ_ALL).fetchone() == (2, 1)


READ_ALL = "select sum(record_count), max(first_offset) from trunkline.log_read(1, 0, 1, 1000, 1000000, true, false)"


def test_a_snapshot_that_is_older_than_a_seal_and_an_upgrade_reads_on(
    connection: psycopg.Connection[Any], db_url: str
) -> None:
    """It takes the segment for the newest; its table is there, with its procedure and without."""
    append(connection)
    with psycopg.connect(db_url) as keeper:
        keeper.execute("set transaction isolation level repeatable read")
        before = keeper.execute(READ_ALL).fetchone()
        connection.execute(ROLL)
        append(connection)
        connection.execute("select trunkline.segment_seal(1)")
        upgrade(db_url)
        assert keeper.execute(READ_ALL).fetchone() == before
        connection.execute("drop procedure trunkline.segment_1_read")
        assert keeper.execute(READ_ALL).fetchone() == before
    after = connection.execute(READ_ALL).fetchone()
    assert before is not None
    assert after is not None
    assert after[0] == 2 * before[0]


@pytest.mark.parametrize("state", ["XX000", "XX001", "XX002", "57014"])
def test_what_is_wrong_with_a_segment_is_not_taken_for_its_end(connection: psycopg.Connection[Any], state: str) -> None:
    """Damaged data least of all: an answer that is too short would look like the end of the log."""
    append(connection)
    connection.execute(ROLL)
    append(connection)
    connection.execute(
        "create or replace procedure trunkline.segment_2_read(integer, bigint, bigint, bigint, kind text,"
        " inout found_rows refcursor) language plpgsql as $$ begin"
        f" raise exception 'invalid page in block 3' using errcode = '{state}'; end $$"
    )
    assert refused(connection, READ_ALL) == state
    assert refused(connection, "select * from trunkline.log_read(1, 0, 3, 1, 1)") == state


def test_nothing_is_left_of_a_segment_that_was_dropped(connection: psycopg.Connection[Any]) -> None:
    """Neither its table nor one of its routines; the next one has the same."""
    connection.execute("select trunkline.segment_roll(1, true)")
    routines = "select proname from pg_proc where proname ~ '^segment_[0-9]+_' order by proname"
    made = [f"segment_{n}_{kind}" for n in (1, 2) for kind in ("append", "read", "take")]
    assert [name for (name,) in connection.execute(routines)] == made
    connection.execute("select trunkline.topic_delete(name) from trunkline.topic")
    for segment_id in (1, 2):
        connection.execute("select trunkline.segment_drop(%s)", [segment_id])
    assert connection.execute(routines).fetchall() == []
    assert connection.execute("select to_regclass('trunkline.segment_1')").fetchone() == (None,)
