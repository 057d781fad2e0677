"""Where the pipeline's Spark session comes from: one function, so that there is one place to change it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": _FILES,
    # Whatever ends a query is said by us, with its place in the file.
    "spark.log.level": "FATAL",
}


def open_session(
    app_name: str = "trunkline", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session for pipelines; ``config`` wins over what is set here."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    where = master or (config or {}).get("spark.master") or "local[*,4]"
    builder = SparkSession.builder.appName(app_name).master(where)
    for name, value in (_SETTINGS | (_LOCAL if where.startswith("local") else {}) | dict(config or {})).items():
        if name != "spark.master":
            builder = builder.config(name, value)
    return builder.getOrCreate()


def quiet_errors() -> None:
    """Spark's own log of errors in SQL, with Java's stack, says nothing that the error itself does not."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
