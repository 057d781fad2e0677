"""Where the pipeline's Spark session comes from, and how it ends: one place to change it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from trunkline.spark.factory import session

# Whatever ends a query is said by us, with its place in the file.
_QUIET = {"spark.log.level": "FATAL"}


def open_session(
    app_name: str = "trunkline", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session for pipelines; ``config`` wins over what is set here."""
    return session(app_name, master=master, config={**_QUIET, **(config or {})})


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
