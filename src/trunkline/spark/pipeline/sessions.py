"""Where the pipeline's Spark session comes from, and how it ends: one place to change it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

import trunkline.spark

_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
# Whatever ends a query is said by us, with its place in the file.
_QUIET = {"spark.log.level": "FATAL"}


def open_session(
    app_name: str = "trunkline", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session for pipelines; ``config`` wins over what is set here."""
    wanted = {**_QUIET, **(config or {})}
    factory = getattr(trunkline.spark, "session", None)
    if factory is not None:
        return cast(SparkSession, factory(app_name, master=master, config=wanted))
    return _plain_session(app_name, master or wanted.get("spark.master") or "local[*,4]", wanted)


def _plain_session(app_name: str, master: str, config: Mapping[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        settings |= {"spark.sql.streaming.checkpointFileManagerClass": _FILES, "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.appName(app_name)
    for name, value in {**settings, **config, "spark.master": master}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def close_session(spark: SparkSession) -> None:
    """End it, also where its Java is gone already."""
    with suppress(Py4JError, OSError):
        spark.stop()


def quiet_errors() -> None:
    """For a command that says itself what went wrong: Spark's and Py4J's own logs of it, with stacks of Java's."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Py4J also writes to the root, which sets itself up when it has no handler.
    logging.getLogger().addHandler(logging.NullHandler())
    ours = logging.getLogger("trunkline")
    if not ours.handlers:
        ours.addHandler(logging.StreamHandler())
