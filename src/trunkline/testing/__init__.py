"""For tests: of applications, and of drivers.

``MemoryBroker`` is a broker in memory with a clock that a test moves. ``Conformance`` and ``AsyncConformance`` are the
suite that decides whether a driver works; ``Harness`` is what its author writes for it:

    from trunkline.testing import AsyncConformance, Conformance, Harness

    class AcmeHarness(Harness):
        def create_topic(self) -> str: ...
        ...

    @pytest.fixture
    def harness() -> Harness:
        return AcmeHarness()

    class TestAcme(Conformance): ...
    class TestAcmeAsync(AsyncConformance): ...

Installed with pytest, the package brings the fixtures ``trunkline_memory`` and ``trunkline_embedded``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.drivers.memory.broker import MemoryBroker
    from trunkline.testing.aio.conformance import AsyncConformance
    from trunkline.testing.harness import Harness
    from trunkline.testing.memory import MemoryHarness
    from trunkline.testing.sync.conformance import Conformance

__all__ = ["AsyncConformance", "Conformance", "Harness", "MemoryBroker", "MemoryHarness"]

# Looked up when they are used: the suite needs pytest, a broker in memory does not.
_HOMES = {
    "AsyncConformance": "trunkline.testing.aio.conformance",
    "Conformance": "trunkline.testing.sync.conformance",
    "Harness": "trunkline.testing.harness",
    "MemoryBroker": "trunkline.drivers.memory.broker",
    "MemoryHarness": "trunkline.testing.memory",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'trunkline.testing' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
