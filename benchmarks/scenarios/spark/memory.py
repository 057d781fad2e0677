"""How large a Python worker of Spark's gets when it reads a range, and one ten times as long, in one task.

The peak is the system's own figure of each worker, set back before each read: that needs Linux.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import filled
from benchmarks.bench import Bench, Scenario
from benchmarks.engine import session, to_noop
from benchmarks.lines import Finding, paired
from benchmarks.memory import peak_mb
from benchmarks.sides import topic_name

PROC = Path("/proc")
TIMES = 10
RESET_PEAK = "5"
"""What /proc takes to forget the highest memory so far."""


def measure(bench: Bench) -> Iterator[Finding]:
    if not (PROC / "self" / "clear_refs").exists():
        yield Finding(name="spark-memory.worker", note="not measured: needs Linux")
        return
    records = bench.scale.memory_bytes // filled.RECORD_BYTES
    small: list[float] = []
    large: list[float] = []
    with filled.topic(bench, records, partitions=1) as given:
        _peak_mb(bench, given.log, records // TIMES)
        for number in range(bench.rounds("fast")):
            small.append(_peak_mb(bench, given.log, records // TIMES))
            large.append(_peak_mb(bench, given.log, records))
            bench.say(
                f"spark-memory, round {number + 1} of {bench.rounds('fast')}: {small[-1]:.0f} MB for "
                f"{records // TIMES:,} records, {large[-1]:.0f} MB for {records:,}"
            )
    note = f"peak for {records:,} records of {filled.RECORD_BYTES} bytes in one task, against a tenth of them"
    yield paired("spark-memory.worker", large, small, note=note)


def _peak_mb(bench: Bench, log: int, records: int) -> float:
    topic = topic_name(log)
    options = {"url": bench.url("fast"), "subscribe": topic, "endingOffsets": f'{{"{topic}":{{"0":{records + 1}}}}}'}
    frame = session().read.format("trunkline").options(**options).load()
    for worker in workers():
        (worker / "clear_refs").write_text(RESET_PEAK)
    to_noop(frame)
    return max(peak_mb(worker / "status") for worker in workers())


def workers(proc: Path = PROC) -> list[Path]:
    """The Python workers of the session, as folders of /proc: the children of Spark's daemons."""
    found = []
    for process in proc.iterdir():
        if process.name.isdecimal():
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"pyspark.daemon" in command and _is_ours(process, proc):
                found.append(process)
    return found


def _is_ours(process: Path, proc: Path) -> bool:
    """Whether this process is among its forefathers."""
    me = (proc / "self").resolve().name
    number = process.name
    while number not in ("0", "1"):
        try:
            number = (proc / number / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            return False
        if number == me:
            return True
    return False


SCENARIO = Scenario("spark-memory", ("spark-memory.worker",), measure)
