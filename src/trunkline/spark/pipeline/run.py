"""Runs a pipeline: starts its queries, watches them, and ends them between two batches.

Every query is exactly once by itself: it has its own checkpoint, and what it has not finished it does again. So a stop
in the middle of a batch would lose nothing but work; the first signal waits for the batch in hand all the same.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import trunkline
from trunkline.errors import NotFound, QueryFailed, TrunklineError
from trunkline.nodes import Place
from trunkline.spark.pipeline import sinks
from trunkline.spark.pipeline.failures import of_query
from trunkline.spark.pipeline.file import Pipeline, Sink, TopicSink
from trunkline.spark.pipeline.progress import BatchDone, Look, State, batch_done
from trunkline.spark.pipeline.steps import check_streaming, compile_views, forget_views

LOOK_EVERY_S = 0.1
STOPPING_EVERY_S = 0.01
OTHERS_END_WITHIN_S = 60.0
"""How long the batch in hand of the others may take once a query has failed."""
STOP_WITHIN = "5s"
"""How long a query may take to stop at once: it may be waiting for the database, where nothing interrupts it."""

# Outside of these a batch is under way. Spark has no better word for it than its status line.
_BETWEEN = ("Getting offsets", "Waiting", "Initializing", "Stopped", "Terminated", "No new data")


@dataclass(frozen=True)
class RunSettings:
    """What the command line says beside the file. ``url`` holds the password: not to be shown."""

    url: str = field(repr=False)
    until_caught_up: bool = False
    checkpoints: str | None = None


@dataclass(frozen=True)
class Started:
    """A query as it is announced."""

    sink: str
    group: str
    checkpoint: str


class Face(Protocol):
    """Who shows it. Called from the thread that runs the pipeline; ``rows`` from another."""

    def begin(self, started: Sequence[Started]) -> None: ...
    def batch(self, done: BatchDone) -> None: ...
    def look(self, looks: Sequence[Look]) -> None: ...
    def rows(self, sink: str, batch: int, columns: Sequence[str], rows: Sequence[Row], *, more: bool) -> None: ...


class Signals:
    """Counts SIGTERM and SIGINT while it is open: one asks to end after the batch in hand, two at once.

    ``at_once`` says whether a batch in hand was left undone.
    """

    def __init__(self) -> None:
        self.count = 0
        self.number = 0
        self.at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, action in self._before.items():
            signal.signal(each, action)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.count += 1
        self.number = number


@dataclass
class _Running:
    """A query and what is known of it."""

    sink: Sink
    query: StreamingQuery
    seen: int = -1
    reported: str = ""
    rows: int = 0
    last: BatchDone | None = None
    asked_at_batch: int | None = None


def checkpoint_folder(pipeline: Pipeline, sink: Sink, given: str | None = None) -> str:
    """Where a query keeps what it has done: in the folder that was given, else below the user's data."""
    chosen = given or pipeline.checkpoints
    if chosen is not None:
        return f"{sinks.located(chosen).rstrip('/')}/{sink.name}"
    from platformdirs import user_data_path

    return str(user_data_path("trunkline") / "checkpoints" / pipeline.name / sink.name)


def check_topics(pipeline: Pipeline, url: str) -> None:
    """Every topic that is named is there; NotFound says where it is named."""
    wanted: list[tuple[Place, str]] = [(pipeline.source.place, name) for name in pipeline.source.topics]
    wanted += [(sink.place, sink.made.topic) for sink in pipeline.sinks if isinstance(sink.made, TopicSink)]
    with trunkline.connect(url) as client:
        for place, name in wanted:
            try:
                client.topic(name)
            except NotFound as error:
                raise NotFound(f"{place}: {error}") from None


def compile_pipeline(spark: SparkSession, pipeline: Pipeline, url: str) -> dict[str, DataFrame]:
    """What each sink writes, by its name: everything that can be wrong without running is found here."""
    made = {}
    try:
        for sink in pipeline.sinks:
            views = compile_views(spark, pipeline, url=url, group=pipeline.group_of(sink))
            check_streaming(spark, pipeline, views, mode=sink.mode, reads=sink.reads)
            made[sink.name] = sinks.shape(sink, views[sink.reads])
    finally:
        forget_views(spark, pipeline)
    return made


def run(spark: SparkSession, pipeline: Pipeline, settings: RunSettings, face: Face) -> Signals:
    """Run until every query has ended, one has failed, or a signal came; the signals that came.

    One that fails ends the others after their batch in hand, and is raised with the place of its sink or step. SIGTERM
    and SIGINT do the same without an error; a second one does not wait.
    """
    with Signals() as signals:
        try:
            made = compile_pipeline(spark, pipeline, settings.url)
            spark.conf.set("spark.sql.streaming.stopTimeout", STOP_WITHIN)
            _Run(pipeline, settings, face, signals).run(made)
        except (Py4JError, ConnectionError) as error:
            if isinstance(error, TrunklineError):
                raise
            if not signals.count:
                raise QueryFailed(
                    f"{pipeline.file}: Spark's Java process has ended; what was under way is done again by the next run"
                ) from None
            # The signal went to the whole group of processes, and Java does not wait.
            signals.at_once = True
    return signals


class _Run:
    def __init__(self, pipeline: Pipeline, settings: RunSettings, face: Face, signals: Signals) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._face = face
        self._signals = signals
        self._failures: dict[str, BaseException] = {}
        self._left: set[str] = set()
        self._running: list[_Running] = []

    def run(self, made: dict[str, DataFrame]) -> None:
        folders = {sink: checkpoint_folder(self._pipeline, sink, self._settings.checkpoints) for sink in self._sinks}
        self._face.begin([Started(sink.name, self._pipeline.group_of(sink), folders[sink]) for sink in self._sinks])
        try:
            for sink in self._sinks:
                self._start(sink, made[sink.name], folders[sink])
            while self._active() and not self._signals.count:
                self._look()
                self._raise_failure()
                time.sleep(LOOK_EVERY_S)
            self._end(lambda: self._signals.count > 1)
            self._look()
            self._raise_failure()
        except BaseException:
            deadline = time.monotonic() + OTHERS_END_WITHIN_S
            with suppress(Py4JError, ConnectionError):
                self._end(lambda: self._signals.count > 1 or time.monotonic() > deadline)
                self._look()
            raise

    @property
    def _sinks(self) -> Sequence[Sink]:
        return self._pipeline.sinks

    def _start(self, sink: Sink, rows: DataFrame, folder: str) -> None:
        if "://" not in folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        output = sinks.Output(
            self._settings.url,
            self._pipeline.group_of(sink),
            folder,
            self._trigger(),
            self._face.rows,
            self._failures,
        )
        try:
            self._running.append(_Running(sink, sinks.start(sink, rows, output)))
        except PySparkException as error:
            raise self._translated(sink, error) from None

    def _trigger(self) -> dict[str, Any]:
        if self._settings.until_caught_up or self._pipeline.available_now:
            return {"availableNow": True}
        return {"processingTime": f"{self._pipeline.every_ms or 0} milliseconds"}

    def _active(self) -> list[_Running]:
        return [each for each in self._running if each.query.isActive]

    # -- watching --

    def _look(self) -> None:
        looks = []
        for each in self._running:
            for done in _new_batches(each):
                self._face.batch(done)
            looks.append(self._one(each))
        self._face.look(looks)

    def _one(self, each: _Running) -> Look:
        last = each.last
        return Look(
            each.sink.name,
            self._state(each),
            None if last is None else last.batch,
            each.rows,
            None if last is None else last.rows_per_s,
            None if last is None else last.lag,
        )

    def _state(self, each: _Running) -> State:
        if not each.query.isActive:
            if each.query.exception() is not None:
                return "failed"
            return "stopped" if each.asked_at_batch is not None else "done"
        if each.asked_at_batch is not None:
            return "stopping"
        if each.seen < 0 and each.query.status["message"].startswith("Initializing"):
            return "starting"
        return "working" if _in_hand(each.query) else "waiting"

    def _raise_failure(self) -> None:
        for each in self._running:
            error = None if each.query.isActive else each.query.exception()
            if error is not None:
                raise self._translated(each.sink, error)

    def _translated(self, sink: Sink, error: BaseException) -> TrunklineError:
        kept = self._failures.get(sink.name, error)
        return of_query(kept, sink.place, self._pipeline.steps, self._settings.url)

    # -- ending --

    def _end(self, at_once: Callable[[], bool]) -> None:
        """Stop every query that runs, each as soon as no batch is under way."""
        for each in self._active():
            each.asked_at_batch = _last_batch(each.query)
        while active := [each for each in self._active() if each.sink.name not in self._left]:
            for each in active:
                if at_once():
                    self._signals.at_once = True
                    with suppress(PySparkException, Py4JError):
                        each.query.stop()
                    self._left.add(each.sink.name)
                elif not _in_hand(each.query) or _last_batch(each.query) != each.asked_at_batch:
                    each.query.stop()
            self._look()
            time.sleep(STOPPING_EVERY_S)


def _in_hand(query: StreamingQuery) -> bool:
    return not query.status["message"].startswith(_BETWEEN)


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _new_batches(each: _Running) -> list[BatchDone]:
    """The batches that have ended since the last look.

    Spark also reports an idle query, under the number of the batch that is to come: such a report has added nothing.
    """
    newest = each.query.lastProgress
    if newest is None or newest["timestamp"] == each.reported:
        return []
    each.reported = newest["timestamp"]
    found = []
    for progress in (json.loads(report.json) for report in each.query.recentProgress):
        if progress["batchId"] > each.seen and "addBatch" in progress["durationMs"]:
            each.last = batch_done(each.sink.name, progress)
            each.seen = each.last.batch
            each.rows += each.last.rows
            found.append(each.last)
    return found
