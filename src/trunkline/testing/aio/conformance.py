"""The suite that decides whether a driver works.

A test module makes a class of it, and a fixture ``harness`` (``trunkline.testing.Harness``); pytest runs the rest. What
a driver does not claim is skipped, or shown to be refused.
"""

from __future__ import annotations

from trunkline.testing.aio.closing import Closing
from trunkline.testing.aio.contract import Contract
from trunkline.testing.aio.delivery import Delivery
from trunkline.testing.aio.settling import Settling


class AsyncConformance(Delivery, Settling, Closing, Contract):
    """Every test of the suite."""
