"""What a Spark session of Trunkline's is set to, and why."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

LOG_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")

ZONE = "spark.sql.session.timeZone"
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
PYTHON_START = "spark.python.authenticate.socketTimeout"
LOCAL_SOCKETS = "spark.python.unix.domain.socket.enabled"

_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ONE_TRY = re.compile(r"local(\[[^,\]]*\])?")


@dataclass(frozen=True)
class Flags:
    """How the driver's Java is started."""

    log_level: str = "ERROR"
    quick_start: bool = False


def is_local(master: str) -> bool:
    """Whether driver and tasks run in one process here. ``local-cluster`` is Spark's own test of a cluster."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def settings_for(master: str) -> dict[str, str]:
    """What we set, unless somebody else has."""
    wanted = {
        ZONE: "UTC",
        PUSH_DOWN: "true",
        "spark.ui.showConsoleProgress": "false",
        # 15 s, Spark's own, are too short for a Python that starts on a busy machine: the query would fail.
        PYTHON_START: "120s",
    }
    if os.name == "posix":
        # Between Java and Python. Over TCP, as Spark sends it, each task waits 40 ms for an acknowledgement.
        wanted[LOCAL_SOCKETS] = "true"
    if is_local(master):
        wanted |= {
            # Spark's own way of writing a file of a checkpoint forks a process for each: 70 to 100 ms a batch.
            CHECKPOINTS: _FILES,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            # 200, Spark's own, are tasks of a few rows each on one machine.
            "spark.sql.shuffle.partitions": str(_cores(master)),
        }
    return wanted


def settings_later(master: str) -> dict[str, str]:
    """Of these, what a session that somebody else has made may get. Not the zone: it says what their queries show."""
    return {key: value for key, value in settings_for(master).items() if key in (PUSH_DOWN, CHECKPOINTS)}


def shortcomings(master: str, found: Mapping[str, str | None]) -> list[str]:
    """What a session that somebody else has made lacks, each with what to do."""
    lacking = []
    if _ONE_TRY.fullmatch(master):
        lacking.append(f"{master} never tries a task again, master local[*,4] does")
    if found.get(ZONE) not in _UTC:
        lacking.append(f"times are shown in the zone {found.get(ZONE)}, set {ZONE} to UTC")
    if is_local(master) and found.get(CHECKPOINTS) != _FILES:
        lacking.append(f"checkpoints are slow, set {CHECKPOINTS} to {_FILES}")
    return lacking


def java_options(flags: Flags, environ: Mapping[str, str]) -> str:
    """Flags for the driver's Java."""
    options = []
    if not _has_own_logging(environ):
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options += [f"-Dlog4j2.configurationFile={quiet}", f"-Dtrunkline.spark.log.level={flags.log_level}"]
    if flags.quick_start:
        # Compiles at once, and without optimising: right for what ends before optimising pays.
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return " ".join(options)


def settings_elsewhere(environ: Mapping[str, str]) -> dict[str, str]:
    """What ``spark-defaults.conf`` and ``PYSPARK_SUBMIT_ARGS`` say: ours must not win over it."""
    return {**_file_settings(environ), **_argument_settings(shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", "")))}


def _file_settings(environ: Mapping[str, str]) -> dict[str, str]:
    folder = _conf_folder(environ)
    path = None if folder is None else folder / "spark-defaults.conf"
    if path is None or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def _argument_settings(arguments: Sequence[str]) -> dict[str, str]:
    found = {}
    for name, value in pairwise([*arguments, ""]):
        flag, _, joined = name.partition("=")
        text = joined or value
        if flag == "--master":
            found["spark.master"] = text
        elif flag in ("--conf", "-c"):
            key, _, setting = text.partition("=")
            found[key] = setting
    return found


def _has_own_logging(environ: Mapping[str, str]) -> bool:
    """Whether the user's Spark says itself how it logs."""
    folder = _conf_folder(environ)
    return folder is not None and any((folder / f"log4j2.{kind}").exists() for kind in ("properties", "xml", "yaml"))


def _conf_folder(environ: Mapping[str, str]) -> Path | None:
    if environ.get("SPARK_CONF_DIR"):
        return Path(environ["SPARK_CONF_DIR"])
    return Path(environ["SPARK_HOME"]) / "conf" if environ.get("SPARK_HOME") else None


def _cores(master: str) -> int:
    found = re.match(r"local\[(\d+)", master)
    if found:
        return int(found[1])
    if not master.startswith("local["):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
