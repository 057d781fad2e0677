"""One Spark session for all tests of this folder, and topics for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trunkline
import trunkline.spark
from tests.spark.topics import Topics
from trunkline import Client


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two threads, tasks tried four times."""
    session = trunkline.spark.session("trunkline-tests", master="local[2,4]", quick_start=True)
    yield session
    session.stop()


@pytest.fixture
def tl(db_url: str) -> Iterator[Client]:
    """A client of the test's own database."""
    with trunkline.connect(db_url) as client:
        yield client


@pytest.fixture
def topics(spark: SparkSession, tl: Client, db_url: str, tmp_path: Path) -> Topics:
    return Topics(spark, tl, db_url, tmp_path)
