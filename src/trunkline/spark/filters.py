"""What filters say of the log: which topics, partitions, offsets and times cannot match.

Only ever leaves out what no record could pass; Spark applies every filter itself to what is read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from trunkline.records import Topic
from trunkline.spark.database import Database

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY = (1, 1)


class Narrowing:
    """Bounds that hold for every record that passes; half-open, as everywhere."""

    def __init__(self) -> None:
        self._topics: set[str] | None = None
        self._partitions: Callable[[int], bool] = lambda _: True
        self._low = {"offset": None, "timestamp": None, "partition": None}  # type: dict[str, int | None]
        self._high = {"offset": None, "timestamp": None, "partition": None}  # type: dict[str, int | None]
        self._in: dict[str, set[int]] = {}

    def add(self, each: Filter) -> None:
        """Take a filter into account, if it is one of a column that the log knows."""
        attribute = getattr(each, "attribute", None)
        if not isinstance(attribute, tuple) or len(attribute) != 1:
            return
        column = attribute[0]
        if column == "topic":
            self._add_topics(each)
        elif column in self._low:
            self._add_numbers(column, each)

    def _add_topics(self, each: Filter) -> None:
        wanted = {each.value} if isinstance(each, EqualTo) else set(each.value) if isinstance(each, In) else None
        if wanted is not None:
            self._topics = wanted if self._topics is None else self._topics & wanted

    def _add_numbers(self, column: str, each: Filter) -> None:
        if isinstance(each, In):
            numbers = [_number(value) for value in each.value]
            found = [number for number in numbers if number is not None]
            if found and len(found) == len(numbers):
                self._raise(column, min(found))
                self._lower(column, max(found) + 1)
                self._in[column] = self._in.get(column, set(found)) & set(found)
            return
        number = _number(getattr(each, "value", None))
        if number is None:
            return
        if isinstance(each, EqualTo):
            self._raise(column, number)
            self._lower(column, number + 1)
        elif isinstance(each, GreaterThan):
            self._raise(column, number + 1)
        elif isinstance(each, GreaterThanOrEqual):
            self._raise(column, number)
        elif isinstance(each, LessThan):
            self._lower(column, number)
        elif isinstance(each, LessThanOrEqual):
            self._lower(column, number + 1)

    def _raise(self, column: str, low: int) -> None:
        before = self._low[column]
        self._low[column] = low if before is None else max(before, low)

    def _lower(self, column: str, high: int) -> None:
        before = self._high[column]
        self._high[column] = high if before is None else min(before, high)

    def narrow(self, database: Database, topic: Topic, partition: int, start: int, end: int) -> tuple[int, int]:
        """The part of ``[start, end)`` in which records may pass."""
        if start >= end or not self._may_match(topic.name, partition):
            return _EMPTY
        first = max(start, self._low["offset"] or start)
        last = min(end, end if self._high["offset"] is None else self._high["offset"])
        low, high = self._low["timestamp"], self._high["timestamp"]
        if first < last and low is not None:
            first = max(first, database.offset_at(topic, partition, low))
        if first < last and high is not None:
            last = min(last, database.offset_at(topic, partition, high))
        return (first, last) if first < last else _EMPTY

    def _may_match(self, topic: str, partition: int) -> bool:
        low, high = self._low["partition"], self._high["partition"]
        return (
            (self._topics is None or topic in self._topics)
            and (low is None or partition >= low)
            and (high is None or partition < high)
            and ("partition" not in self._in or partition in self._in["partition"])
        )


def _number(value: Any) -> int | None:
    """A whole number, or a time in microseconds."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.astimezone()
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None
