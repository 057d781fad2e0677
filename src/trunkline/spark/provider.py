"""``format("trunkline")``: what Spark makes of our name. Found by itself through the module ``pyspark_trunkline``."""

from __future__ import annotations

import sys

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from trunkline.spark.columns import check_schema, schema
from trunkline.spark.options import sink_options, source_options

# The worker in which Spark makes a reader in order to hand it filters.
_FILTERING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class TrunklineSource(DataSource):
    """Topics as Spark's tables and streams, read and written."""

    @classmethod
    def name(cls) -> str:
        return "trunkline"

    def schema(self) -> StructType:
        included = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return schema(included)

    def reader(self, schema: StructType) -> DataSourceReader:
        from trunkline.spark.source import NarrowedReader, TopicReader

        options = source_options(self.options, streaming=False)
        made = NarrowedReader if options.push_filters and is_asked_for_filters() else TopicReader
        return made(options, check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from trunkline.spark.source import TopicStreamReader

        return TopicStreamReader(source_options(self.options, streaming=True), check_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from trunkline.spark.sink import TopicWriter

        return TopicWriter(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from trunkline.spark.sink import TopicStreamWriter

        return TopicStreamWriter(sink_options(self.options), schema, overwrite=overwrite)


def is_asked_for_filters() -> bool:
    """Whether Spark makes this reader to hand it filters.

    It does so in a worker of its own, where ``spark.sql.python.filterPushdown.enabled`` is on and a query has filters.
    Every other worker refuses a reader that takes them unless that setting is on, which nothing tells us there; and
    has none to hand over. So a reader takes filters in that worker alone, and reads are right in either setting.
    """
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _FILTERING_WORKER in sys.modules or getattr(program, "name", None) == _FILTERING_WORKER
