"""From the file to Structured Streaming: the source and every step as a view. Nothing runs here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from trunkline.errors import InvalidArgument
from trunkline.nearest import nearest_name
from trunkline.nodes import Place
from trunkline.spark.pipeline.failures import in_sql, sentence
from trunkline.spark.pipeline.file import INPUT, Pipeline, Source, SqlStep, Step, Watermark

CORRUPT = "_corrupt"
_RECORD = ("key", "topic", "partition", "offset", "timestamp", "headers")


def compile_views(spark: SparkSession, pipeline: Pipeline, *, url: str, group: str) -> dict[str, DataFrame]:
    """The source and the steps by name. Errors in SQL name the step and the line.

    The views of the session are made again by each call; what was compiled before does not change.
    """
    read = spark.readStream.format("trunkline").options(**pipeline.source.options).option("url", url)
    views = {INPUT: _source(pipeline.source, read.option("groupId", group).load())}
    views[INPUT].createOrReplaceTempView(INPUT)
    for step in pipeline.steps:
        built = _BUILDERS[type(step.made)](spark, step)
        views[step.name] = _watermarked(built, step.watermark)
        views[step.name].createOrReplaceTempView(step.name)
    return views


def forget_views(spark: SparkSession, pipeline: Pipeline) -> None:
    """Leave no names behind in the session."""
    for name in (INPUT, *(step.name for step in pipeline.steps)):
        spark.catalog.dropTempView(name)


def check_columns(place: Place, names: tuple[str, ...], rows: DataFrame) -> None:
    """Refuse columns that the rows do not have."""
    known = {name.lower() for name in rows.columns}
    for name in names:
        if name.lower() not in known:
            raise place.error(f"there is no column {name!r}; {nearest_name(name, rows.columns)}")


# -- the source --


def _source(source: Source, records: DataFrame) -> DataFrame:
    made = _FORMATS[source.format](source, records)
    names = [name.lower() for name in made.columns]
    for name in names:
        if names.count(name) > 1:
            raise source.place.error(f"column {name} is there twice: rename the one of the schema")
    return _watermarked(made, source.watermark)


def _raw(_source: Source, records: DataFrame) -> DataFrame:
    return records.drop("timestampType")


def _text(_source: Source, records: DataFrame) -> DataFrame:
    text = {name: F.col(name).cast("string") for name in ("key", "value")}
    return records.drop("timestampType").withColumns(text)


def _json(source: Source, records: DataFrame) -> DataFrame:
    """The fields of the schema, then the record's own columns with an underscore before their names."""
    fields = _schema(source)
    schema = fields.add(CORRUPT, "string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    text = F.col("value").cast("string")
    own = [_own(name).alias(f"_{name}") for name in _RECORD if name in records.columns]
    parsed = records.select(F.from_json(text, schema, options).alias("parsed"), text.alias("text"), *own)
    # What is empty gives no row, and nothing corrupt.
    bad = F.col("parsed").isNull() | F.col(f"parsed.{CORRUPT}").isNotNull()
    names = [F.col("parsed").getField(name).alias(name) for name in fields.names if name != CORRUPT]
    kept = [F.col(column) for column in parsed.columns if column not in ("parsed", "text")]
    if source.bad_records == "drop":
        return parsed.where(~bad).select(*names, *kept)
    if source.bad_records == "keep":
        return parsed.select(*names, *kept, F.when(bad, F.col("text")).alias(CORRUPT))
    return parsed.where(F.when(bad, F.raise_error(_complaint())).otherwise(F.lit(True))).select(*names, *kept)


def _own(name: str) -> SparkColumn:
    return F.col(name).cast("string") if name == "key" else F.col(name)


def _complaint() -> SparkColumn:
    said = "offset %d of %s, partition %d, does not fit the schema: see it with trunkline get, "
    said += "or set bad_records: drop or keep"
    return F.format_string(said, "_offset", "_topic", "_partition")


def _schema(source: Source) -> StructType:
    fields = StructType()
    for column in source.columns:
        quoted = column.name.replace("`", "``")
        text = f"`{quoted}` {column.type.value}" if column.name else column.type.value
        try:
            found = StructType.fromDDL(text)
            assert isinstance(found, StructType)
        except PySparkException as error:
            raise column.type.first_line.error(sentence(str(error))) from None
        if column.name and len(found.fields) != 1:
            raise column.type.first_line.error(f"{column.type.value!r} is not one type")
        for field in found.fields:
            fields = fields.add(field)
    if CORRUPT in fields.names:
        raise source.place.error(f"{CORRUPT} is the column for records that do not fit: rename the one of the schema")
    return fields


_FORMATS: dict[str, Callable[[Source, DataFrame], DataFrame]] = {"raw": _raw, "text": _text, "json": _json}


# -- the steps --


def _sql(spark: SparkSession, step: Step) -> DataFrame:
    assert isinstance(step.made, SqlStep)
    text = step.made.sql.value.rstrip().removesuffix(";")
    try:
        # In parentheses only a query is SQL: a step can select, and not create or drop.
        return spark.sql(f"SELECT * FROM (\n{text}\n)")  # noqa: S608 - it is the user's own SQL
    except PySparkException as error:
        raise in_sql(error, step.made.sql) from None


def _watermarked(rows: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return rows
    check_columns(watermark.place, (watermark.column,), rows)
    with _at(watermark.place):
        return rows.withWatermark(watermark.column, f"{watermark.delay_ms} milliseconds")


@contextmanager
def _at(place: Place) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise place.error(sentence(str(error))) from None


_BUILDERS: dict[type, Callable[[SparkSession, Step], DataFrame]] = {SqlStep: _sql}


# -- what a stream cannot do --


def check_streaming(
    spark: SparkSession, pipeline: Pipeline, views: dict[str, DataFrame], *, mode: str, reads: str
) -> None:
    """Refuse what Spark would refuse when the query starts, and name the step that asks for it."""
    if _unsupported(spark, views[reads], mode) is None:
        return
    for step in pipeline.steps:
        said = _unsupported(spark, views[step.name], mode)
        if said is not None:
            place = step.made.sql.first_line if isinstance(step.made, SqlStep) else step.place
            raise place.error(f"{said} (mode {mode})")
        if step.name == reads:
            break
    raise InvalidArgument(f"{pipeline.source.place}: {_unsupported(spark, views[reads], mode)}")


def _unsupported(spark: SparkSession, rows: DataFrame, mode: str) -> str | None:
    jvm = spark._jvm  # noqa: SLF001 - Spark has no other door to its checker before a query starts
    if jvm is None:
        return None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
    try:
        checker.checkForStreaming(plan, getattr(modes, mode.capitalize())())
    except PySparkException as error:
        return sentence(str(error))
    return None
