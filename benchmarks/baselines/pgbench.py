"""The baseline's SQL under pgbench: how fast it is with a client that costs nearly nothing.

The payloads of a batch stand in the statement itself, which is prepared once; so pgbench does not even send them,
and the comparison leans towards it. One pgbench for each partition, as there is one writer for each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from psycopg import sql

from benchmarks.baselines import rows
from trunkline.client import target

DEADLINE_S = 600.0
_VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "options": "PGOPTIONS",
    "sslmode": "PGSSLMODE",
}


def find(programs: Path | None) -> str | None:
    """pgbench beside the server's own programs, else on PATH."""
    beside = programs / "pgbench" if programs is not None else None
    if beside is not None and os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("pgbench")


def write_rate(pgbench: str, url: str, log: int, batches: Sequence[list[bytes]], commits: int) -> float:
    """Records a second, all partitions together: partition i gets its batch again and again."""
    scripts = [
        rows.write_statement(log, partition, sql.SQL(array_literal(batch))).as_string() + ";\n"
        for partition, batch in enumerate(batches)
    ]
    rates = run(pgbench, url, scripts, commits)
    return sum(rate * len(batch) for rate, batch in zip(rates, batches, strict=True))


def read_rate(pgbench: str, url: str, log: int, *, partitions: int, windows: int, window_records: int) -> float:
    """Records a second, all partitions together, in windows that follow each other at random."""
    chosen = f"\\set begin 1 + {window_records} * random(0, {windows - 1})\n\\set end :begin + {window_records}\n"
    scripts = [
        chosen + rows.read_statement(log, partition, sql.SQL(":begin"), sql.SQL(":end")).as_string() + ";\n"
        for partition in range(partitions)
    ]
    return sum(run(pgbench, url, scripts, windows)) * window_records


def array_literal(batch: Sequence[bytes]) -> str:
    """A bytea[] as it stands in SQL text."""
    return "'{" + ",".join(f'"\\\\x{payload.hex()}"' for payload in batch) + "}'::bytea[]"


def run(pgbench: str, url: str, scripts: Sequence[str], transactions: int) -> list[float]:
    """Transactions a second of each script, all of them at the same time."""
    environment = {**os.environ, **_environment(url)}
    running: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="trunkline-pgbench-") as folder:
        try:
            for number, script in enumerate(scripts):
                path = Path(folder) / f"{number}.sql"
                path.write_text(script, "utf-8")
                command = [pgbench, "-n", "-M", "prepared", "-c", "1", "-t", str(transactions), "-f", str(path)]
                running.append(_started(command, environment))
            return [_tps(*process.communicate(timeout=DEADLINE_S)) for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()


def timed(pgbench: str, url: str, script: str, *, clients: int, duration_s: float) -> tuple[float, list[float]]:
    """Transactions a second of many clients of one script, and how many seconds each took, waits in it included."""
    with tempfile.TemporaryDirectory(prefix="trunkline-pgbench-") as folder:
        path = Path(folder) / "script.sql"
        path.write_text(script, "utf-8")
        options = ["-c", str(clients), "-j", "2", "-T", str(max(1, round(duration_s))), "-f", str(path)]
        log = ["--log", f"--log-prefix={folder}/took"]
        process = _started([pgbench, "-n", "-M", "prepared", *options, *log], {**os.environ, **_environment(url)})
        try:
            rate = _tps(*process.communicate(timeout=DEADLINE_S))
        finally:
            process.kill()
            process.wait()
        lines = [line for each in Path(folder).glob("took.*") for line in each.read_text().splitlines()]
    return rate, [int(line.split()[2]) / 1e6 for line in lines]


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def _environment(url: str) -> dict[str, str]:
    """How to connect, in variables: a password has no place on a command line."""
    parts = target.parse(url)
    return {_VARIABLES[name]: value for name, value in parts.items() if name in _VARIABLES}


def _tps(output: str, errors: str) -> float:
    found = re.search(r"^tps = ([\d.]+) \((?:without initial connection time|excluding .*)\)", output, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pgbench failed: {errors.strip()[-500:]}")
    return float(found[1])
