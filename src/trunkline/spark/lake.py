"""Parquet that pipelines have written."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds


def row_count(folder: Path) -> int:
    """How many rows stand in the Parquet files of a folder; 0 where there is none."""
    files = [str(path) for path in folder.rglob("*.parquet")] if folder.is_dir() else []
    return int(ds.dataset(files, format="parquet").count_rows()) if files else 0
