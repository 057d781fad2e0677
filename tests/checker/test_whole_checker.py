"""The checker of whole transactions sees what is torn, and nothing else."""

from __future__ import annotations

import pytest

from tests.checker.whole_transactions import Part, parts_of, torn, torn_deliveries

A, B = parts_of("a", {0: 3, 1: 2}), parts_of("b", {0: 1})
WHOLE = [*A[0], *B[0], *A[1]]


def payloads(parts: list[Part]) -> list[bytes]:
    return [part.payload for part in parts]


def test_whole_transactions_in_any_company_are_clean() -> None:
    assert torn_deliveries([payloads(WHOLE), payloads(A[1]), []]) == []


@pytest.mark.parametrize(
    "parts",
    [
        A[0][:2],
        A[0][1:],
        [A[0][0], A[0][2]],
        [A[0][1], A[0][0], A[0][2]],
        [*A[0], *A[0]],
        [*A[0][:2], *B[0], A[0][2]],
        [*A[0], *B[0], *A[0]],
    ],
    ids=["its end is missing", "its beginning", "its middle", "its order", "twice", "split by another", "again later"],
)
def test_what_is_torn_is_seen(parts: list[Part]) -> None:
    assert torn(payloads(parts))
