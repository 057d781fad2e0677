"""The pipeline of the demo: `trunkline pipeline run` on a file of its own, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import trunkline
from trunkline.errors import DeadlineExceeded, ServerError

REVENUE = "revenue"
STOP_S = 60.0
CATCH_UP_S = 90.0

FILE = """\
# Revenue by minute, into a topic and into Parquet. Run it yourself: trunkline pipeline run {path}
name: demo
source:
  topic: orders
  format: json
  schema: id STRING, user STRING, amount DECIMAL(12,2), sku STRING, time TIMESTAMP
  watermark: {{column: time, delay: 15 minutes}}
steps:
  - name: by_minute
    sql: |
      SELECT window.start AS minute, count(*) AS orders, sum(amount) AS revenue
      FROM input GROUP BY window(time, '1 minute')
sinks:
  - topic: {topic}
    key: minute
  - parquet: {lake}
trigger: {{every: 2 s}}
checkpoints: {checkpoints}
"""


def is_possible() -> bool:
    """Whether Spark is installed."""
    return find_spec("pyspark") is not None


class Pipeline:
    """The pipeline while the demo runs. What it says goes into a file, which is shown where it fails."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self.lake = folder / "lake"
        self.file = folder / "pipeline.yml"
        self._log = folder / "pipeline.log"
        folder.mkdir(parents=True, exist_ok=True)
        checkpoints = folder / "checkpoints"
        self.file.write_text(
            FILE.format(path=self.file, topic=REVENUE, lake=self.lake, checkpoints=checkpoints), encoding="utf-8"
        )
        with trunkline.connect(url) as tl:
            tl.create_topic(REVENUE, partitions=2)

    def __enter__(self) -> Pipeline:
        command = [sys.executable, "-m", "trunkline.cli.main", "pipeline", "run", str(self.file), "--json"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "TRUNKLINE_URL": self._url},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which then ends this.
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def check(self) -> None:
        """Raise where it has ended before its time."""
        if self._process.poll() is not None:
            last = self._log.read_text(encoding="utf-8", errors="replace")[-3_000:]
            raise ServerError(f"the pipeline ended with exit code {self._process.returncode}:\n{last}")

    def wait_for_minutes(self, minutes: int, while_waiting: Callable[[], None]) -> None:
        """Until so many minutes stand in the topic that it writes, and in Parquet."""
        from trunkline.spark.lake import row_count

        gives_up_at = time.monotonic() + CATCH_UP_S
        with trunkline.connect(self._url) as tl:
            while sum(log.end - log.start for log in tl.offsets(REVENUE)) < minutes or row_count(self.lake) < minutes:
                self.check()
                if time.monotonic() > gives_up_at:
                    raise DeadlineExceeded(f"the pipeline has not written all minutes within {CATCH_UP_S:g} s")
                while_waiting()
                time.sleep(0.2)

    def stop(self) -> None:
        """Let it finish the batch in hand, and end."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired as error:
            raise DeadlineExceeded(f"the pipeline has not ended within {STOP_S:g} s") from error
