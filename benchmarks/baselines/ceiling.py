"""How fast Python can hand rows to Spark at all: a source that yields batches that were made before, and has no
database behind it. Its columns and sizes are those of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.payloads import Payloads, made
from trunkline.spark.columns import TYPES, names, schema

NAME = "trunkline_ceiling"


class CeilingSource(DataSource):
    """Options: ``records`` in all, ``tasks``, and of each batch ``batchRecords`` and ``recordBytes``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's
        numbers = [int(self.options[name]) for name in ("records", "tasks", "batchRecords", "recordBytes")]
        return CeilingReader(*numbers)


class CeilingReader(DataSourceReader):
    """Tasks that yield one batch again and again."""

    def __init__(self, records: int, tasks: int, batch_records: int, record_bytes: int) -> None:
        self._records = records
        self._tasks = tasks
        self._batch_records = batch_records
        self._record_bytes = record_bytes

    def partitions(self) -> Sequence[InputPartition]:
        edges = [self._records * task // self._tasks for task in range(self._tasks + 1)]
        return [InputPartition(end - start) for start, end in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        whole = batch_of(self._batch_records, self._record_bytes)
        left = partition.value
        while left > 0:
            yield whole if left >= whole.num_rows else whole.slice(0, left)
            left -= whole.num_rows


@cache
def batch_of(records: int, record_bytes: int) -> pa.RecordBatch:
    """A batch as our source makes them, once for each process."""
    pool = made(Payloads("order", 0, record_bytes=record_bytes))
    time = datetime(2025, 11, 16, tzinfo=UTC)
    columns = {
        "key": pa.nulls(records, TYPES["key"]),
        "value": pa.array([pool[at % len(pool)] for at in range(records)], TYPES["value"]),
        "topic": pa.repeat(pa.scalar("bench-1"), records),
        "partition": pa.array(np.zeros(records, np.int32)),
        "offset": pa.array(np.arange(1, records + 1)),
        "timestamp": pa.repeat(pa.scalar(time, TYPES["timestamp"]), records),
        "timestampType": pa.array(np.ones(records, np.int32)),
    }
    order = names(include_headers=False)
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in order], schema=pa.schema([pa.field(name, TYPES[name]) for name in order])
    )
