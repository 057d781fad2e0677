"""Somebody publishes and then leaves the transaction open: whether others, on the same partition, notice it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.business import ROW_ID, Market, Run, trade
from benchmarks.lines import Finding, Flush, paired
from benchmarks.scenarios.outbox.business import p99
from benchmarks.sides import topic_name

PROCESSES = 4
OPEN_S = 10.0
QUICK_S = 2.0


def measure(bench: Bench) -> Iterator[Finding]:
    open_s = QUICK_S if bench.scale.name == "quick" else OPEN_S
    for flush in bench.flushes:
        with_it: list[Run] = []
        without: list[Run] = []
        for _ in range(bench.rounds(flush)):
            for found, is_open in ((with_it, True), (without, False)):
                found.append(_run(bench, flush, open_s, is_open=is_open))
            bench.say(
                f"outbox-open {flush} flush: p99 {p99(with_it[-1]):.2f} ms while a transaction is open for "
                f"{open_s:g} s, without it {p99(without[-1]):.2f}; longest {longest(with_it[-1]):.1f}"
            )
        note = f"open for {open_s:g} s"
        yield paired("outbox-open.delay", [*map(p99, with_it)], [*map(p99, without)], flush=flush, note=note)
        yield paired("outbox-open.longest", [*map(longest, with_it)], [*map(longest, without)], flush=flush, note=note)


def longest(run: Run) -> float:
    """In milliseconds."""
    return max(span.took_s for span in run.spans) * 1_000


def _run(bench: Bench, flush: Flush, open_s: float, *, is_open: bool) -> Run:
    """Clients that insert, publish to one partition and commit, without work, while one has published before."""
    market = Market(1, PROCESSES, 1, 0.0, open_s)
    url = bench.url(flush)
    with ExitStack() as stack:

        def leave_open(log: int) -> None:
            tl = stack.enter_context(trunkline.connect(url))
            connection = psycopg.connect(url)
            stack.callback(connection.close)
            tl.publish(topic_name(log), ROW_ID.pack(-1), conn=connection)
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS

        return trade(bench, "ours", market, url, before=leave_open if is_open else None)


SCENARIO = Scenario("outbox-open", ("outbox-open.delay", "outbox-open.longest"), measure)
