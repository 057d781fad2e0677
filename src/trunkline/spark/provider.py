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
from trunkline.spark.workers import leave_quietly, spare_collections

leave_quietly()
spare_collections()

# The programs in which Spark makes a reader: to hand it filters, and to plan a read that has none to hand over.
_FILTERING = "pyspark.sql.worker.data_source_pushdown_filters"
_PLANNING = "pyspark.sql.worker.plan_data_source_read"


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
        made = NarrowedReader if options.push_filters and may_take_filters() else TopicReader
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


def may_take_filters() -> bool:
    """Whether Spark bears a reader with ``pushFilters`` here.

    Where it hands filters over, it does: only then its setting ``spark.sql.python.filterPushdown.enabled`` is on. Where
    it plans a read without any, it refuses one unless that setting is on, of which nothing is told; nor is it of use.
    """
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    programs = {getattr(program, "name", None), *sys.modules}
    return _FILTERING in programs or _PLANNING not in programs
