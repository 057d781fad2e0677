"""Real processes with one queue that are killed, stopped, resumed and poisoned; what they wrote down is judged."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import trunkline
from tests.checker.queue_invariants import assert_queue_clean
from tests.concurrency.conftest import StartServer
from tests.concurrency.sessions import wait_until
from tests.queues.fleet import Fleet, QueueProcess, fleet
from tests.queues.worker import POISON
from trunkline.errors import ClaimLost, TrunklineError
from trunkline.settings import ClientSettings


@pytest.fixture
def own_url(make_database: Callable[[], str]) -> str:
    """A database of the test's own: what is kept for the checker stays in it."""
    return make_database()


def _settle_late(zombie: QueueProcess, heir: QueueProcess, how: str) -> None:
    """The zombie has records in hand. It is stopped until the heir has got the same ones, and then settles at once."""
    had = zombie.ask("receive", "handed")
    got, answers = len(heir.notes("handed")), len(zombie.notes("settled"))
    zombie.stop()
    heir.tell("receive")
    again = heir.wait_for("handed", got + 1)
    zombie.tell(how)
    zombie.resume()
    late = zombie.wait_for("settled", answers + 1)
    offsets = [offset for claim in had["claims"] for offset in claim[-1]]
    assert [offset for claim in again["claims"] for offset in claim[-1]] == offsets
    assert sorted(place[1] for place in late["lost"]) == offsets, "refused, and each is named"


@pytest.mark.parametrize(
    "zombies", [pytest.param(20, id="short"), pytest.param(200, id="long", marks=pytest.mark.chaos)]
)
def test_every_late_settlement_of_a_stopped_process_is_refused(
    own_url: str, tmp_path: Path, seed: int, zombies: int
) -> None:
    """A reader is stopped past its deadline, another gets its records; the first goes on and acknowledges, gives back
    or extends them: refused, and nothing is written. Then the roles change."""
    with fleet(own_url, tmp_path, seed, ack_deadline_s=0.25) as queue:
        zombie, heir = queue.start(is_told=True), queue.start(is_told=True)
        with trunkline.connect(own_url) as tl:
            for number in range(zombies):
                tl.publish_many("t", [b"x"] * 3)
                _settle_late(zombie, heir, ("ack", "ack", "nack", "extend")[number % 4])
                heir.ask("ack", "settled")
                _clear(queue, heir)
                zombie, heir = heir, zombie
        queue.finish()
        history = queue.history()
        assert_queue_clean(history)
        assert sum(each.answer == "lost" for each in history.settled) >= zombies


def _clear(queue: Fleet, reader: QueueProcess) -> None:
    """An heir that was slow itself has lost them too: until everything is done."""

    def is_done() -> bool:
        done, published = queue.look()
        if done < published:
            reader.ask("receive", "handed")
            reader.ask("ack", "settled")
        return done == published

    wait_until(is_done, "everything is done", deadline_s=60)


@pytest.mark.parametrize(
    ("each", "seconds"), [pytest.param(3, 4, id="short"), pytest.param(8, 120, id="long", marks=pytest.mark.chaos)]
)
def test_readers_and_publishers_are_killed_at_random(
    own_url: str, tmp_path: Path, seed: int, each: int, seconds: float
) -> None:
    """Publishers and readers work while one after the other is killed with SIGKILL and replaced, and the tables of
    claims are rolled. Every record is acknowledged, none is held by two, nothing that was acknowledged comes again,
    and the floor passes nothing."""
    chance = random.Random(seed)
    with fleet(own_url, tmp_path, seed, ack_deadline_s=2.0, partitions=4) as queue:
        for process in [queue.start_soon(prefetch=chance.choice([0, 20])) for _ in range(each)]:
            process.wait_for("begun")
        end_at = time.monotonic() + seconds
        kills = 0
        while time.monotonic() < end_at:
            publishers = [process for process in queue.every if process.lives and process not in queue.readers]
            for _ in range(each - len(publishers)):
                queue.start_soon(publishes=400)
            queue.wait_for_progress(chance.randint(1, 20))
            victim = chance.choice([process for process in queue.every if process.lives])
            is_reader = victim in queue.readers
            victim.kill()
            kills += 1
            if is_reader:
                queue.start_soon(prefetch=chance.choice([0, 20]))
            _roll(own_url)
        for process in queue.every:
            if process.lives and process not in queue.readers:
                process.wait()
        queue.finish()
        print(f"{kills} kills, {len(queue.every)} processes")
        history = queue.history()
        assert_queue_clean(history)
        assert kills


def _roll(url: str) -> None:
    """New tables for the claims, as somebody does who finds the old ones full."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select trunkline.queue_roll(queue_id, true) from trunkline.queue")
        left = "select trunkline.queue_move_parts(queue_id) from trunkline.queue"
        for _ in range(8):
            if connection.execute(left).fetchone() == (0,):
                break
        with suppress(psycopg.errors.LockNotAvailable):
            connection.execute("select trunkline.queue_drop_old()")


def test_a_record_that_kills_its_readers_ends_among_the_dead_letters(own_url: str, tmp_path: Path, seed: int) -> None:
    """Readers exit at once when they see it. Each time another is started; attempts are counted though nobody lives to
    count them. In the end it is buried, and all others are delivered."""
    with fleet(own_url, tmp_path, seed, ack_deadline_s=3.0, max_attempts=3, dead_letter="dead") as queue:
        with trunkline.connect(own_url) as tl:
            tl.publish_many("t", [b"x"] * 10 + [POISON] + [b"x"] * 10)
        queue.start(prefetch=0, is_steady=True)

        def replace() -> None:
            if not queue.readers:
                queue.start(prefetch=0, is_steady=True)

        queue.finish(meanwhile=replace)
        deaths = [process.exit_code for process in queue.every].count(9)
        print(f"{deaths} readers died of it")
        history = queue.history(max_attempts=3)
        assert history.buried == [(0, 11)]
        assert deaths == 3
        assert_queue_clean(history)


# -- the server --

PATIENT = ClientSettings(deadline_s=60, connect_timeout_s=5)


@pytest.mark.parametrize("rounds", [pytest.param(3, id="short"), pytest.param(30, id="long", marks=pytest.mark.chaos)])
def test_the_server_is_killed_in_claims_and_in_acknowledgements(
    start_server: StartServer, seed: int, rounds: int
) -> None:
    """It is killed while a reader claims and acknowledges, and started again. What was acknowledged stays so; what was
    claimed comes again, after its deadline or at once where the claim was forgotten; nothing is left over."""
    chance = random.Random(seed)
    server = start_server()
    acked: set[int] = set()
    with trunkline.connect(server.url, settings=PATIENT) as tl:
        tl.create_topic("t")
        queue = tl.queue("t", "q", ack_deadline_s=1.0, prefetch=0)
        for number in range(rounds):
            tl.publish_many("t", [b"x"] * 30)
            for step in range(chance.randint(2, 6)):
                with suppress(TrunklineError):
                    deliveries = queue.receive(chance.randint(1, 7))
                    if step == 1:
                        server.kill()
                        server.restart()
                    again = acked & {delivery.offset for delivery in deliveries}
                    assert not again, f"{again} were acknowledged, in round {number}"
                    queue.ack(deliveries)
                    acked |= {delivery.offset for delivery in deliveries}
        everything = set(range(1, 30 * rounds + 1))

        def read_on() -> bool:
            deliveries = queue.receive(10, wait_s=1.0)
            assert not acked & {delivery.offset for delivery in deliveries}
            with suppress(ClaimLost):
                queue.ack(deliveries)
                acked.update(delivery.offset for delivery in deliveries)
            return acked == everything

        wait_until(read_on, "everything is acknowledged", deadline_s=60)
        assert queue.receive(10, wait_s=1.5) == []
        queue.close()
