"""What breaks under a consumer, one thing at a time: answers that are lost, members that are removed, applications that
do not come back. Whatever happens, the group reads on, and nobody is told what is not so."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest

import trunkline
import trunkline.aio
from tests.aio.shim import wait_until as soon
from tests.concurrency.proxy import Fault, Proxy
from tests.concurrency.sessions import wait_until
from tests.groups.scene import (
    LEDGER,
    PATIENT,
    QUICK,
    Admin,
    effects,
    newest,
    read,
    remove_members,
    seek_to_start,
    write,
)
from trunkline import ClientSettings, ConsumerSettings, HandlerSettings, Record
from trunkline.client.sync.consumer import Consumer
from trunkline.errors import DeadlineExceeded, Fenced, OutcomeUnknown, Unavailable

WAITING = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
LOCK = "select trunkline.lock_cursors(array(select cursor_id from trunkline.group_cursor))"
END_THE_POOLS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name = 'trunkline' and datname = current_database()"
)
CUT = ClientSettings(heartbeat_s=0.1, session_timeout_s=2, statement_timeout_s=0.5)


# -- answers that are lost --


async def test_a_partition_that_was_taken_without_an_answer_is_read(db_url: str, admin: Admin) -> None:
    """A poll is cancelled while the server waits for the cursor's lock to give it the partition; the server does that
    later, and nobody is there to hear it. The next poll reads the partition all the same."""
    async with (
        trunkline.aio.connect(db_url, settings=PATIENT) as tl,
        tl.consumer("t", group="g") as consumer,
    ):
        assert len(await consumer.poll()) == 5
        with psycopg.connect(db_url) as holder:
            seek_to_start(admin)
            holder.execute(LOCK)
            polling = asyncio.ensure_future(consumer.poll(wait_s=30))
            await soon(lambda: admin.execute(WAITING).fetchone() == (1,))
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
        await soon(lambda: newest(admin)[0] == "t")
        assert len(await consumer.poll(wait_s=30)) == 5


def test_a_request_that_takes_the_partition_late_only_costs_another_turn(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """The request to take the partition is held up in the network. The consumer has taken it by another one, and has
    read, when it arrives and begins a new epoch: the commit is refused, and the records come again."""
    proxy, url = proxied
    proxy.delay_s = 20
    with (
        trunkline.connect(url, settings=PATIENT, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g") as consumer,
    ):
        read(consumer, 5)
        consumer.commit()
        seek_to_start(admin)
        wait_until(lambda: _is_free(consumer), "the watch has seen that it is lost")
        proxy.arm(Fault.DELAYED)
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        assert proxy.hits == [Fault.DELAYED]
        proxy.deliver_late()
        wait_until(lambda: proxy.late_answers, "the server has answered the late request")
        with pytest.raises(Fenced) as refused:
            consumer.commit()
        assert refused.value.partitions == [("t", 0)]
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        consumer.commit()
        assert tl.describe_group("g").lag == 0


def _is_free(consumer: Consumer) -> bool:
    """Whether the consumer is about to be shown that nobody holds the partition."""
    assert consumer._seat is not None
    view = consumer._seat._view
    return view is not None and [cursor.owner for cursor in view.cursors] == [None]


@pytest.mark.parametrize("fault", Fault)
def test_a_commit_survives_each_kind_of_cut(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str], fault: Fault
) -> None:
    proxy, url = proxied
    with (
        trunkline.connect(url, settings=CUT, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g") as consumer,
    ):
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        proxy.arm(fault)
        consumer.commit()
        assert proxy.hits == [fault]
        proxy.deliver_late()
        with trunkline.connect(db_url) as other:
            other.publish("t", b"6")
        assert read(consumer, 1) == [6]
        consumer.commit()
        assert tl.describe_group("g").lag == 0


@pytest.mark.parametrize("fault", Fault)
def test_a_transaction_that_is_cut_has_its_effects_once(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str], fault: Fault
) -> None:
    """The cut falls on the COMMIT. What became of it is found out; where it was not done, the error says so, and the
    records come again."""
    proxy, url = proxied
    with (
        trunkline.connect(url, settings=CUT, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):
        try:
            done = write(consumer, lambda: proxy.arm(fault))
        except (Unavailable, DeadlineExceeded):
            assert effects(admin) == []
            done = write(consumer)
        assert proxy.hits == [fault]
        proxy.deliver_late()
        assert effects(admin) == done == [1, 2, 3, 4, 5]
        assert tl.describe_group("g").lag == 0


def test_a_commit_that_was_done_is_not_called_refused(db_url: str, admin: Admin, proxied: tuple[Proxy, str]) -> None:
    """The answer to a commit is lost, and before it is sent again the partition is another's: it is refused then, but
    the first attempt was done. OutcomeUnknown, not Fenced, which would say that nothing was written."""
    proxy, url = proxied
    with (
        trunkline.connect(url, settings=PATIENT, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g") as consumer,
    ):
        read(consumer, 5)
        proxy.after_answer = lambda: seek_to_start(admin)
        proxy.arm(Fault.REPLY_LOST)
        with pytest.raises(OutcomeUnknown):
            consumer.commit()
        assert ("c", 1, 6) in admin.execute(LEDGER).fetchall()
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        consumer.commit()


def test_an_app_reads_on_after_a_commit_that_was_done_and_then_refused(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """As an app is that was stopped for longer than an answer may take: its records are handled again, by whoever holds
    the partition now, and that is it itself."""
    proxy, url = proxied
    handled: list[int] = []
    app = trunkline.App(url, settings=PATIENT)

    @app.on("t", group="g", settings=HandlerSettings(commit_interval_s=0.05))
    def handle(record: Record) -> None:
        handled.append(record.offset)
        if len(handled) == 1:
            proxy.after_answer = lambda: seek_to_start(admin)
            proxy.arm(Fault.REPLY_LOST, naming=b"commit_cursors")

    with app, trunkline.connect(db_url) as tl:
        wait_until(lambda: len(handled) > 5 and tl.describe_group("g").lag == 0, "the group has come to the end")
    assert proxy.hits == [Fault.REPLY_LOST]
    assert handled[0] == 1
    assert handled[-5:] == [1, 2, 3, 4, 5]


def test_a_transaction_that_was_done_is_not_called_refused(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """The same at the end of a transaction, whose member is removed before it could find out."""
    proxy, url = proxied
    with (
        trunkline.connect(url, settings=PATIENT, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):
        proxy.after_answer = lambda: remove_members(admin)
        with pytest.raises(OutcomeUnknown):
            write(consumer, lambda: proxy.arm(Fault.REPLY_LOST))
        assert effects(admin) == [1, 2, 3, 4, 5]
        with trunkline.connect(db_url) as other:
            other.publish("t", b"6")
        assert write(consumer) == [6]


def test_a_transaction_begins_on_a_sound_connection(db_url: str, admin: Admin) -> None:
    """The sessions of the pool were ended while it was not used. Nothing has been done yet, so that is no concern of
    the application's, which has the records in memory."""
    with (
        trunkline.connect(db_url, settings=PATIENT) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):
        with consumer.transaction(max_records=2) as tx:
            assert [record.offset for record in tx.records] == [1, 2]
        admin.execute(END_THE_POOLS)
        assert write(consumer) == [3, 4, 5]


def test_a_transaction_on_the_only_connection_finds_out_what_became_of_it(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    proxy, url = proxied
    settings = ClientSettings(heartbeat_s=0.1, session_timeout_s=20, connections_max=1)
    with (
        trunkline.connect(url, settings=settings, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):
        assert write(consumer, lambda: proxy.arm(Fault.REPLY_LOST)) == [1, 2, 3, 4, 5]
        assert effects(admin) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rounds", [60, pytest.param(2000, marks=pytest.mark.chaos)])
async def test_transactions_that_are_cancelled_have_their_effects_once(
    db_url: str, admin: Admin, seed: int, rounds: int
) -> None:
    """The task of a transaction is cancelled at some moment, often near its commit: every record has its effect once,
    whether the commit was done or not."""
    chance = random.Random(seed)
    cancelled = 0
    async with (
        trunkline.aio.connect(db_url, settings=PATIENT) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):

        async def once(wait_s: float) -> int:
            async with consumer.transaction(max_records=2, wait_s=wait_s) as tx:
                for record in tx.records:
                    await tx.conn.execute("insert into public.effect values (%s)", [record.offset])
                return len(tx.records)

        for _ in range(rounds):
            await tl.publish_many("t", [b"x", b"y"])
            task = asyncio.ensure_future(once(30))
            await asyncio.wait([task], timeout=chance.random() * 0.02)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                cancelled += 1
        while await once(5):
            pass
        end = (await tl.offsets("t"))[0].end
    print(f"{cancelled} of {rounds} were cancelled")
    assert effects(admin) == list(range(1, end))


# -- members that are removed --


def test_a_member_that_was_removed_joins_again_also_where_nobody_else_is_left(db_url: str, admin: Admin) -> None:
    """The others took it for dead, removed it, and went. Its commit is refused, and its next poll reads."""
    with trunkline.connect(db_url, settings=PATIENT) as tl, tl.consumer("t", group="g") as consumer:
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        remove_members(admin)
        with pytest.raises(Fenced):
            consumer.commit()
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        consumer.commit()
        assert tl.describe_group("g").lag == 0


def test_a_member_that_was_removed_joins_again_also_where_everybody_else_is_dead(db_url: str, admin: Admin) -> None:
    with trunkline.connect(db_url, settings=PATIENT) as tl, tl.consumer("t", group="g") as consumer:
        assert consumer._member is not None
        with trunkline.connect(db_url, settings=PATIENT) as other:
            other.consumer("t", group="g").__enter__()
        admin.execute("select trunkline.member_leave(array[%s::integer])", [consumer._member.member_id])
        assert read(consumer, 5) == [1, 2, 3, 4, 5]


def test_a_member_that_is_removed_while_it_takes_its_turn_joins_again(db_url: str, admin: Admin) -> None:
    """What it does is what an older view asks for: it is to take a partition, and is no member any more."""
    with trunkline.connect(db_url, settings=PATIENT) as tl, tl.consumer("t", group="g") as consumer:
        assert consumer._member is not None
        seek_to_start(admin)
        view = consumer._member._look()
        remove_members(admin)
        consumer._member.settle(view)
        assert read(consumer, 5) == [1, 2, 3, 4, 5]


def test_a_transaction_whose_member_was_removed_is_refused(db_url: str, admin: Admin) -> None:
    """Its session was ended before it could commit, so nothing of it was done; then it was removed."""
    with (
        trunkline.connect(db_url, settings=PATIENT) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):

        def end_and_remove() -> None:
            admin.execute(END_THE_POOLS)
            remove_members(admin)

        with pytest.raises(Fenced) as refused:
            write(consumer, end_and_remove)
        assert refused.value.partitions == [("t", 0)]
        assert effects(admin) == []
        assert write(consumer) == [1, 2, 3, 4, 5]


def test_a_partition_that_is_added_while_a_member_takes_its_turn_is_read(db_url: str, admin: Admin) -> None:
    """It takes a partition of which it did not know, and so learns of another one that the group does not read yet."""
    with trunkline.connect(db_url, settings=PATIENT) as tl, tl.consumer("t", group="g") as consumer:
        assert consumer._member is not None
        topic = tl.add_partitions("t", 2)
        admin.execute("select trunkline.group_begin(%s, %s)", [consumer._member.group_id, topic.topic_id])
        view = consumer._member._look()
        tl.add_partitions("t", 3)
        consumer._member.settle(view)
        tl.publish("t", b"6", partition=2)
        assert sorted(read(consumer, 6)) == [1, 1, 2, 3, 4, 5]


# -- applications that do not come back --


def test_a_handler_that_never_returns_gives_its_partitions_up(db_url: str, admin: Admin) -> None:
    """The process lives, but its application does not come back: another member reads on, the late commit is refused,
    and whoever comes back takes part again."""
    with (
        trunkline.connect(db_url, settings=QUICK) as tl,
        trunkline.connect(db_url, settings=QUICK) as other,
        tl.consumer("t", group="g", settings=ConsumerSettings(handler_timeout_s=0.3)) as hung,
        other.consumer("t", group="g") as heir,
    ):
        assert read(hung, 5) == [1, 2, 3, 4, 5]
        assert heir.assignment == []
        assert read(heir, 5) == [1, 2, 3, 4, 5]
        with pytest.raises(Fenced):
            hung.commit()
        heir.commit()
        heir.close()
        other.publish("t", b"6")
        assert read(hung, 1) == [6]


def test_a_transaction_that_waits_too_long_between_two_statements_is_given_up(db_url: str, admin: Admin) -> None:
    """As a process that was stopped would: the server ends it after session_timeout_s, and says why."""
    with (
        trunkline.connect(db_url, settings=ClientSettings(heartbeat_s=0.1, session_timeout_s=2)) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):
        gone = "select count(*) from pg_stat_activity where state = 'idle in transaction'"
        with pytest.raises(Unavailable, match="session_timeout_s"):
            write(consumer, lambda: wait_until(lambda: admin.execute(gone).fetchone() == (0,), "it was ended"))
        assert effects(admin) == []
        assert write(consumer) == [1, 2, 3, 4, 5]
