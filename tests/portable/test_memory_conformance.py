"""The conformance suite on the memory driver, in both worlds."""

from __future__ import annotations

import pytest

from trunkline.testing import AsyncConformance, Conformance, Harness, MemoryBroker, MemoryHarness


@pytest.fixture
def harness(broker: MemoryBroker) -> Harness:
    return MemoryHarness(broker)


class TestMemory(Conformance):
    pass


class TestMemoryAsync(AsyncConformance):
    pass
