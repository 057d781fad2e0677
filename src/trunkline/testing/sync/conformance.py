# Generated from src/trunkline/testing/aio/conformance.py by tools/twins.py (make fix). Change the source, not this file.
"""The suite that decides whether a driver works.

A test module makes a class of it, and a fixture ``harness`` (``trunkline.testing.Harness``); pytest runs the rest. What
a driver does not claim is skipped, or shown to be refused.
"""

from __future__ import annotations

from trunkline.testing.sync.closing import Closing
from trunkline.testing.sync.contract import Contract
from trunkline.testing.sync.delivery import Delivery
from trunkline.testing.sync.settling import Settling


class Conformance(Delivery, Settling, Closing, Contract):
    """Every test of the suite."""
