"""How the queries of a pipeline stand, as values for a face to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

State = Literal["starting", "waiting", "working", "stopping", "done", "stopped", "failed"]


class Look(msgspec.Struct, frozen=True):
    """One query at one moment. ``batch`` is the last that has ended; ``rows`` were read since the start.

    ``lag`` is how many records of its topics that batch left to read; None until one has ended.
    """

    sink: str
    state: State
    batch: int | None = None
    rows: int = 0
    rows_per_s: float | None = None
    lag: int | None = None


class BatchDone(msgspec.Struct, frozen=True):
    """A batch that has ended, once."""

    sink: str
    batch: int
    rows: int
    rows_per_s: float
    took_ms: int
    lag: int | None


def batch_done(sink: str, progress: Mapping[str, Any]) -> BatchDone:
    """From what Spark reports of a batch."""
    sources = [each for each in progress.get("sources") or [] if isinstance(each, Mapping)]
    lags = [_lag(each) for each in sources]
    known = [lag for lag in lags if lag is not None]
    rate = progress.get("processedRowsPerSecond")
    return BatchDone(
        sink,
        int(progress["batchId"]),
        int(progress.get("numInputRows") or 0),
        float(rate) if isinstance(rate, int | float) else 0.0,
        int(progress.get("batchDuration") or 0),
        sum(known) if known else None,
    )


def _lag(source: Mapping[str, Any]) -> int | None:
    """From where a batch has ended to where the log did when it began."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(place, 1)) for place, offset in latest.items())


def _offsets(said: object) -> dict[tuple[str, str], int] | None:
    """Topic and partition → offset, of what our source told Spark; other keys are not topics."""
    if isinstance(said, str):
        try:
            said = msgspec.json.decode(said)
        except msgspec.DecodeError:
            return None
    if not isinstance(said, Mapping):
        return None
    return {
        (str(topic), str(partition)): offset
        for topic, partitions in said.items()
        if topic != "@" and isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }
