"""One Spark session for all tests of this folder, and topics for each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import trunkline
from trunkline import Client

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two threads, tasks tried four times."""
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("trunkline-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.checkpointFileManagerClass", _FILES)
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def tl(db_url: str) -> Iterator[Client]:
    """A client of the test's own database."""
    with trunkline.connect(db_url) as client:
        yield client
