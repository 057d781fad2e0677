"""Topics in Spark: ``format("trunkline")``, the session factory, pipelines.

import trunkline.spark

spark = trunkline.spark.session()
orders = spark.read.format("trunkline").option("subscribe", "orders").load()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.spark.factory import register, session

__all__ = ["register", "session"]

# Looked up when first used: importing this room starts no Spark, and needs none.
_HOMES = {"register": "trunkline.spark.factory", "session": "trunkline.spark.factory"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
