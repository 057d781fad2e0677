"""What tests of the portable API stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trunkline.testing import MemoryBroker


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker("under-test") as made:
        yield made
