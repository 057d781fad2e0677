"""Whether the baseline's readers are strong ones: their transactions through psycopg, and under pgbench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from psycopg import sql

from benchmarks.baselines import pgbench
from benchmarks.baselines.claims import Claims, claim_statement, kept_to_the_index
from benchmarks.baselines.rows import read_statement
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import WARM_BATCHES, Content, Fill, Place, Seen, rate
from benchmarks.lines import Finding, paired
from benchmarks.members import Seat
from benchmarks.payloads import Checksum, Payloads

PARTITIONS = 4
BATCH_RECORDS, READ_RECORDS = 100, 200
BATCHES, BATCHES_MIN = 500, 50


@dataclass(frozen=True)
class ClaimAll:
    """Read a partition to its end as the baseline's readers do."""

    url: str
    log: int
    seat: Seat

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Seen]]:
        with Claims().member(self.url, self.log, self.seat) as member:

            def claim_all() -> Seen:
                seen = Checksum()
                started = monotonic()
                while (handed := member.take(0.0)) is not None:
                    for payloads in handed.payloads:
                        seen = seen.after(payloads)
                    member.commit()
                return Seen(seen, seen.records, started, monotonic())

            yield claim_all


def measure(bench: Bench) -> Iterator[Finding]:
    program = pgbench.find(bench.programs)
    if program is None:
        yield Finding(name="claims.pgbench", note="not measured: pgbench not found")
        return
    url = bench.url("fast")
    with bench.log(Claims(), PARTITIONS) as log:
        contents = _filled(bench, log)
        Claims().analyse(url, log)
        driver: list[float] = []
        bare: list[float] = []
        for number in range(bench.scale.rounds):
            groups = [f"psycopg-{number}", f"pgbench-{number}"]
            Claims().create_groups(url, log, groups)
            driver.append(_through_psycopg(bench, log, groups[0], contents))
            bare.append(_through_pgbench(program, url, log, groups[1], contents))
    yield paired("claims.pgbench", driver, bare)


def _filled(bench: Bench, log: int) -> list[Content]:
    # An even number of batches: the last read of pgbench must find as much as all others.
    batches = 2 * max(BATCHES_MIN, round(BATCHES * bench.scale.work / 2)) + WARM_BATCHES % 2
    fills = [
        Fill(Place(Claims(), bench.url("fast"), log, partition), Payloads("cart", partition), BATCH_RECORDS, batches)
        for partition in range(PARTITIONS)
    ]
    return [written.content for written in bench.crew.run(fills)]


def _seats(group: str) -> list[Seat]:
    return [Seat(group, reader, 1, READ_RECORDS) for reader in range(PARTITIONS)]


def _through_psycopg(bench: Bench, log: int, group: str, contents: list[Content]) -> float:
    seen = bench.crew.run([ClaimAll(bench.url("fast"), log, seat) for seat in _seats(group)])
    assert [each.checksum for each in seen] == [content.whole for content in contents]
    return rate(seen)


def _through_pgbench(program: str, url: str, log: int, group: str, contents: list[Content]) -> float:
    reads = contents[0].whole.records // READ_RECORDS
    scripts = [script(log, seat) for seat in _seats(group)]
    return sum(pgbench.run(program, kept_to_the_index(url), scripts, reads)) * READ_RECORDS


def script(log: int, seat: Seat) -> str:
    """One read of a reader that is behind, for pgbench."""
    claim = claim_statement(log, seat).as_string()
    read = read_statement(log, seat.reader, sql.SQL(":claimed_from"), sql.SQL(":next_offset")).as_string()
    return f"begin;\n{claim} \\gset\n{read};\ncommit;\n"


SCENARIO = Scenario("claims", ("claims.pgbench",), measure)
