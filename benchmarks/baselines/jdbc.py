"""Spark's own JDBC source and sink over the baseline's table: one row a record.

It is what a Spark user has today, in its best form. Reads are cut into as many tasks as ours by ranges of the offset,
which is indexed, and bring the columns that a reader needs, not the serial key. Rows come in portions of
``FETCH_ROWS``, and in binary from the first statement on. Writes are sent in batches that the driver turns into inserts
of many rows; Spark itself numbers the records, so the counter row of the design is not even asked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from benchmarks.baselines.rows import schema_name
from trunkline.client import target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

JAR_VARIABLE = "TRUNKLINE_JDBC_JAR"
JAR = Path("/usr/share/java/postgresql.jar")
MISSING = f"not measured: no JDBC driver; install Debian's libpostgresql-jdbc-java, or name its jar in {JAR_VARIABLE}"
DRIVER = "org.postgresql.Driver"
SAME_COLUMNS = "offset BIGINT, value BINARY, timestamp TIMESTAMP"
"""What ``read`` brings, as columns of a topic."""
FETCH_ROWS = 10_000
WRITE_ROWS = 10_000


def find_jar() -> Path | None:
    """The driver's jar, where there is one. It is never fetched."""
    named = os.environ.get(JAR_VARIABLE)
    path = Path(named) if named else JAR
    return path if path.is_file() else None


def jdbc_url(url: str) -> str:
    """The same server and database, as JDBC names them."""
    parts = target.parse(url)
    # Negative: results in binary at once, not only once a statement was run five times.
    settings = {"prepareThreshold": "-1", "reWriteBatchedInserts": "true"}
    settings |= {name: parts[name] for name in ("user", "password", "options") if name in parts}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in settings.items())
    return f"jdbc:postgresql://{parts['host']}:{parts.get('port', '5432')}/{quote(parts['dbname'])}?{query}"


def table_name(log: int) -> str:
    """A log of one partition."""
    return f"{schema_name(log)}.topicpartition0"


def read(spark: SparkSession, url: str, log: int, *, records: int, tasks: int) -> DataFrame:
    """The records of a log of one partition, whose offsets go from 1 on."""
    columns = f"(select c_offset, payload, created_at from {table_name(log)}) as log"
    ranges = {"partitionColumn": "c_offset", "lowerBound": "1", "upperBound": str(records + 1)}
    return (
        _reader(spark, url).options(dbtable=columns, numPartitions=str(tasks), fetchsize=str(FETCH_ROWS), **ranges)
    ).load()


def _reader(spark: SparkSession, url: str) -> DataFrameReader:
    return spark.read.format("jdbc").options(url=jdbc_url(url), driver=DRIVER)


def append(frame: DataFrame, url: str, log: int) -> None:
    """Add the columns ``c_offset`` and ``payload`` to a log of one partition; each task is a transaction of its own."""
    where = {"url": jdbc_url(url), "driver": DRIVER, "dbtable": table_name(log)}
    frame.write.format("jdbc").options(batchsize=str(WRITE_ROWS), **where).mode("append").save()
