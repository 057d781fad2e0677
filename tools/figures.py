"""Write the README's figures from the last complete runs of the benchmarks; no figure there is typed by hand.

python -m tools.figures            write
python -m tools.figures --check    only compare                     (make check)
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from benchmarks.lines import Line
from benchmarks.report import RESULTS, Run, table_target

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- figures: python -m tools.figures -->\n"
END = "<!-- end of figures -->"

LOG = {
    "json-1000.write": "write, batches of 1,000",
    "json-100.write": "write, batches of 100",
    "json-1.write": "write, one record a commit",
    "json-1000.read_batches": "read as columns, batches of 1,000",
    "json-1000.read": "read as records, batches of 1,000",
    "json-1.read_batches": "read as columns, one record a batch",
    "random-100.write": "write 1 KiB of random bytes, batches of 100",
    "random-100.read_batches": "read 1 KiB of random bytes as columns",
    "json-1000.disk": "disk a record, lz4",
    "json-1.disk": "disk a record, one record a batch",
    "single.publish": "p50 of one `publish`, against one plain INSERT",
    "concurrent.tasks": "100 concurrent `publish` calls, against one at a time",
    "snapshot.publish": "rate after 60 s of somebody's snapshot, against before",
    "snapshot.rows": "the same for the baseline's tables",
    "growth.publish": "cost of a publish at 10^7 records, against 10^3",
    "growth.read": "cost of a read at 10^7 records, against 10^3",
}
GROUPS = {
    "reference.write_p50": "5,000 records/s to 5 groups: write, p50",
    "reference.read_p50": "read, p50",
    "reference.end_to_end_p50": "end to end, p50",
    "reference.end_to_end_p99": "end to end, p99",
    "saturation-100.write": "10 writers and 20 readers flat out: written",
    "saturation-100.read": "read meanwhile",
    "wake.delivery": "p50 from publish to a waiting consumer, against a bare commit plus a bare NOTIFY",
    "idle.processor": "the server's processor time for 100 idle consumers, against readers that poll",
    "fanout.follow-8": "what each of 8 groups reads, against one alone",
    "held.consume": "consumed after 60 s of somebody's snapshot, against before",
    "held.claims": "the same for the baseline's readers",
    "group-read.batches": "reading as a group, against reading by offset",
}
SPARK = {
    "spark-read.jdbc": "read 2 million records of 200 bytes, against Spark's JDBC source",
    "spark-read.ceiling": "the same, against Python handing Spark prepared columns",
    "spark-write.jdbc": "write 1 million, exactly once, against JDBC append",
    "spark-stream.topic": "topic to topic, exactly once, against reading alone",
    "spark-stream.parquet": "topic to Parquet, against reading alone",
    "spark-commit.publish": "another publisher's p99 during a sink commit of 1 GB, against idle",
    "spark-trigger.floor": "a micro-batch, against Spark's own rate source",
    "spark-memory.worker": "memory of a worker for ten times the range",
}
OUTBOX = {
    "outbox-business.throughput-8": "32 business transactions at a time, 8 partitions, against without publishing",
    "outbox-business.p99-8": "p99 of the whole transaction",
    "outbox-business.counter-8": "the same with the usual counter row",
    "outbox-business.throughput-1": "one partition",
    "outbox-business.p99-1": "p99 of the whole transaction",
    "outbox-business.counter-1": "the same with the usual counter row",
    "outbox-open.delay": "p99 of others while a transaction is left open after its publish, against without it",
    "outbox-snapshot.publish": "rate after 60 s of somebody's snapshot, against before",
}
QUEUES = {
    "queue-batches.hidden": "batches of 100, acknowledged, against rows that are hidden by an update and then deleted",
    "queue-batches.deleted": "against rows that are deleted when they are received, without our guarantee",
    "queue-handlers.hidden": "one at a time, 100 in memory",
    "queue-single.hidden": "one at a time, none in memory",
    "queue-held.ours_last_quarter": "rate at the end of 60 s of somebody's snapshot, against its begin",
    "queue-held.hidden": "at that time, against hidden rows",
    "queue-wal.batches_hidden": "WAL bytes of a record from publish to acknowledgement, in batches",
    "queue-parked.claim": "cost of a claim behind a parked record",
}
SHOWN = {"log": LOG, "groups": GROUPS, "spark": SPARK, "outbox": OUTBOX, "queues": QUEUES}
"""By the benchmark's name."""


def table(run: Run) -> str:
    """The lines that a reader asks for first, with what each had to reach and whether it did."""
    found = {line.name: line for line in run.lines if line.flush == "fast"}
    rows = [_row(label, found[name]) for name, label in SHOWN[run.title].items() if name in found]
    machine = run.environment
    return (
        "| | ratio | target | |\n|---|---|---|---|\n"
        + "".join(rows)
        + f"\nA full run of {run.started_at:%d %B %Y}, PostgreSQL {machine.server_version.split()[0]}, "
        f"{machine.cpus} processors, {machine.file_system}, commit {machine.commit}. "
        f"Every line: [benchmarks/results/{run.title}-latest.json](benchmarks/results/{run.title}-latest.json).\n"
    )


def _row(label: str, line: Line) -> str:
    verdict = {True: "", False: "missed", None: ""}[line.ok]
    ratio = "-" if line.ratio is None else f"{line.ratio:.2f}"
    return f"| {label} | {ratio} | {table_target(line)} | {verdict} |\n"


def written(readme: str) -> str:
    """The README with the figures of the last complete runs, or with the word that there are none."""
    paths = [RESULTS / f"{title}-latest.json" for title in SHOWN]
    runs = [msgspec.json.decode(path.read_bytes(), type=Run) for path in paths if path.exists()]
    figures = "\n".join(map(table, runs)) or "No complete run has been made yet.\n"
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{figures}{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    readme = README.read_text()
    if BEGIN not in readme or END not in readme:
        print(f"{README.name} has no place for the figures: {BEGIN.strip()} … {END}")
        return 1
    fresh = written(readme)
    if "--check" in (sys.argv[1:] if arguments is None else arguments):
        if fresh != readme:
            print(f"stale: {README.name}; python -m tools.figures writes it")
        return int(fresh != readme)
    README.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
