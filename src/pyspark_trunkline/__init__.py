"""Tells Spark of ``format("trunkline")``: it looks for modules of this name, and for ``DefaultSource`` in them.

Imported by every Spark application on a machine that has Trunkline installed, so it is cheap and never fails.
"""

from __future__ import annotations

try:
    from trunkline.spark.provider import TrunklineSource as DefaultSource
except ImportError:  # the extra `spark` is not installed: then there is nothing to tell
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
