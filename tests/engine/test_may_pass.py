"""Which errors of a handler will pass by themselves."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import lookup

from trunkline import errors
from trunkline.client.failures import may_pass
from trunkline.errors import TrunklineError


@pytest.mark.parametrize(
    "state",
    ["40001", "40P01", "55P03", "57P01", "57P02", "57P03", "08000", "08003", "08006", "53300", "25006"],
)
def test_S4_15_the_server_was_away_or_somebody_was_in_the_way(state: str) -> None:
    assert may_pass(lookup(state)("…"))


@pytest.mark.parametrize("state", ["23505", "22P02", "42601", "42501", "57014", "P0001"])
def test_what_the_application_did_does_not_pass(state: str) -> None:
    assert not may_pass(lookup(state)("…"))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (errors.Unavailable("…"), True),
        (errors.DeadlineExceeded("…"), True),
        (errors.ReadOnly("…"), True),
        (errors.NotFound("…"), False),
        (errors.OutcomeUnknown("…"), False),
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.OperationalError('password authentication failed for user "x"'), False),
        (psycopg.InterfaceError("the cursor is closed"), False),
        (ConnectionError("somebody else's server"), False),
        (ValueError("…"), False),
    ],
    ids=repr,
)
def test_errors_of_ours_of_the_driver_and_of_others(error: TrunklineError, passes: bool) -> None:
    assert may_pass(error) is passes


def test_what_stands_between_application_and_driver_is_looked_through() -> None:
    outer = RuntimeError("a layer's own error")
    outer.__cause__ = ValueError("another layer's")
    outer.__cause__.__cause__ = lookup("40001")("…")
    assert may_pass(outer)
    # What was merely being handled when it came is not its cause.
    beside = RuntimeError("…")
    beside.__context__ = lookup("40001")("…")
    assert not may_pass(beside)
