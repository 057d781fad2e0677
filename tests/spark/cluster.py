"""A standalone cluster on loopback, from the pip package: one master and two workers, each a process of its own."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from tests.spark.programs import free_port, spark_class, started, wait_for

# They live for one test; what they run is started with flags of its own.
_ENVIRONMENT = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True)
class Cluster:
    """``master`` is the URL that a session is given; ``worker_pids`` whose children the executors are."""

    master: str
    web_port: int
    worker_pids: tuple[int, ...]

    def alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/json/", timeout=30) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (URLError, ConnectionError):
            return 0

    def executor_pids(self) -> list[int]:
        """The executors that run, as the system knows them."""
        found = []
        for worker in self.worker_pids:
            for task in Path(f"/proc/{worker}/task").iterdir():
                found += [int(child) for child in _text(task / "children").split()]
        return [pid for pid in found if "CoarseGrainedExecutorBackend" in _text(Path(f"/proc/{pid}/cmdline"))]


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Two workers of one core each, until the block ends."""
    port, web_port = free_port(), free_port()
    address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web_port)]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        command = spark_class("org.apache.spark.deploy.master.Master", *address)
        processes = [stack.enter_context(started(command, folder / "master.log", **_ENVIRONMENT))]
        for number in (1, 2):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
            place = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
            command = spark_class("org.apache.spark.deploy.worker.Worker", *place, *room, master)
            processes.append(stack.enter_context(started(command, folder / f"worker-{number}.log", **_ENVIRONMENT)))
        cluster = Cluster(master, web_port, tuple(process.pid for process in processes[1:]))
        wait_for(lambda: cluster.alive_workers() == 2, *processes)
        yield cluster


def _text(path: Path) -> str:
    try:
        return path.read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
