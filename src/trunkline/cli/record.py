"""How a record is shown: as a JSON line, as a line for people, or as a page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trunkline.cli.output import printable, readable, time_text

if TYPE_CHECKING:
    from trunkline import Record

Show = Callable[["Record"], bytes]


def record_fields(record: Record) -> dict[str, Any]:
    """A record for JSON: bytes as text where they are UTF-8, else in base64 under a name that says so."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "append_time": record.append_time,
        **bytes_field("key", record.key),
        **bytes_field("payload", record.payload),
        "headers": [{"name": name, **bytes_field("value", value)} for name, value in record.headers],
    }


def bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def json_line() -> Show:
    """Shows a record as one JSON object on a line."""
    import msgspec

    encoder = msgspec.json.Encoder()
    return lambda record: encoder.encode(record_fields(record)) + b"\n"


def plain_line(record: Record) -> bytes:
    """A record on one line for people; what is not printable is escaped."""
    parts = [f"{record.partition}:{record.offset}", time_text(record.append_time)]
    if record.key is not None:
        parts.append(f"key={readable(record.key)}")
    parts += [f"{printable(name)}={readable(value)}" for name, value in record.headers]
    return ("  ".join([*parts, readable(record.payload)]) + "\n").encode()


def page(record: Record) -> str:
    """A record over several lines for people; JSON is indented."""
    lines = [
        f"topic      {record.topic}",
        f"partition  {record.partition}",
        f"offset     {record.offset}",
        f"time       {time_text(record.append_time)}",
        f"key        {'-' if record.key is None else readable(record.key)}",
        *(f"header     {printable(name)}={readable(value)}" for name, value in record.headers),
        f"payload    {len(record.payload)} bytes",
        "",
    ]
    return "\n".join([*lines, *_body(record.payload)]) + "\n"


def _body(payload: bytes) -> list[str]:
    try:
        text = json.dumps(json.loads(payload), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = payload.decode(errors="backslashreplace")
    return [printable(line) for line in text.split("\n")]
