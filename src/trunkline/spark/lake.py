"""Parquet that pipelines have written."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec
import pyarrow.dataset as ds

_COMMITTED = "_spark_metadata"
_LOG = re.compile(r"\d+(\.compact)?")


def row_count(folder: Path) -> int:
    """How many rows a stream has written to a folder, in micro-batches that are done; 0 where there is none."""
    files = sorted(_files(folder))
    return int(ds.dataset(files, format="parquet").count_rows()) if files else 0


def _files(folder: Path) -> set[str]:
    """What Spark's own log of the folder names. Other files are of a batch that is being written, or was given up."""
    logs = folder / _COMMITTED
    found = [path for path in logs.iterdir() if _LOG.fullmatch(path.name)] if logs.is_dir() else []
    entries = (msgspec.json.decode(line) for path in found for line in path.read_bytes().splitlines()[1:])
    return {url2pathname(urlsplit(entry["path"]).path) for entry in entries if entry["action"] == "add"}
