"""What the server or the driver says, as errors of ours. The one place where SQLSTATEs are read."""

from __future__ import annotations

import re

import psycopg

from trunkline import errors
from trunkline.errors import TrunklineError

_RANGE = re.compile(r"^\[(-?\d+), (-?\d+)\)$")

_BY_STATE: dict[str, type[TrunklineError]] = {
    "40001": errors.Conflict,
    "40P01": errors.Conflict,
    "26000": errors.Conflict,
    "55P03": errors.Conflict,
    "53300": errors.Unavailable,
    "57P01": errors.Unavailable,
    "57P02": errors.Unavailable,
    "57P03": errors.Unavailable,
    "57P05": errors.Unavailable,
    "25P03": errors.Unavailable,
    "57014": errors.DeadlineExceeded,
    "25006": errors.ReadOnly,
    "42501": errors.PermissionDenied,
    "28000": errors.PermissionDenied,
    "28P01": errors.PermissionDenied,
    "3D000": errors.NotFound,
    "3F000": errors.SchemaMissing,
    "42883": errors.SchemaMissing,
    "42P01": errors.SchemaMissing,
}

# libpq gives no SQLSTATE for a connection that was refused: its words are all there is.
_BY_WORDS: tuple[tuple[str, type[TrunklineError]], ...] = (
    ("password authentication failed", errors.PermissionDenied),
    ("no password supplied", errors.PermissionDenied),
    ("SASL authentication failed", errors.PermissionDenied),  # PgBouncer's words, and the two below
    ("no such user", errors.PermissionDenied),
    ("no such database", errors.NotFound),
    ("is not permitted to log in", errors.PermissionDenied),
    ("no pg_hba.conf entry", errors.PermissionDenied),
    ("permission denied for database", errors.PermissionDenied),
    ("does not exist", errors.NotFound),
    ("session is read-only", errors.ReadOnly),
)

_NEXT_STEP: dict[type[TrunklineError], str] = {
    errors.Conflict: "try again; a transaction that holds a partition's lock for long shows in `trunkline doctor`",
    errors.Unavailable: "is the server running, and reachable from here?",
    errors.PermissionDenied: "check user and password, and the role's grants (`trunkline db install --roles …`)",
    errors.ReadOnly: "connect to the primary: this server, or this transaction, takes no writes",
    errors.SchemaMissing: "install Trunkline into this database, or bring it up to date: trunkline db install",
    errors.NotFound: "create the database, or correct its name in the URL",
}
_IDLE = "the transaction did nothing for longer than session_timeout_s; raise it, or do slow work outside"


def translate(error: psycopg.Error) -> TrunklineError:
    """The error of ours that says the same and what to do next. Never contains a password."""
    said = error.diag
    return translate_state(
        error.sqlstate,
        said.message_primary or str(error),
        hint=said.message_hint,
        detail=said.message_detail,
        # InternalError is the driver's own for an answer that it did not expect: where a session ends behind a pooler,
        # the server's farewell and the pooler's come as two answers to one BEGIN or COMMIT.
        is_lost=isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError),
    )


_CLAIMS = re.compile(r"\b(claim|closure)_[0-9]+")
"""Tables and functions that a roll of a queue replaces."""


def translate_state(
    state: str | None, primary: str, *, hint: str | None = None, detail: str | None = None, is_lost: bool = True
) -> TrunklineError:
    """As ``translate``, for what any driver says: a SQLSTATE, a message, a hint, a detail. Without a SQLSTATE it is the
    connection that failed, and ``is_lost`` says whether another one may work."""
    if not state:
        return _translate_connection(primary, is_lost)
    if state.startswith("TL"):
        return _translate_ours(state, _sentence(primary, hint), detail or "")
    if _is_function_gone(state, primary):
        state = "42883"
    if state in ("42883", "42P01") and _CLAIMS.search(primary):
        return errors.Conflict(f"the claims of a queue have just moved to other tables ({state}); try again")
    found = _BY_STATE.get(state) or (errors.Unavailable if state.startswith("08") else errors.ServerError)
    next_step = _IDLE if state == "25P03" else _NEXT_STEP.get(found)
    if found is errors.SchemaMissing:
        hint = None  # The server advises to cast arguments.
    return found(_sentence(f"{primary} ({state})", hint or next_step))


def is_moved(error: psycopg.Error) -> bool:
    """Whether the tables of a queue's claims, or their functions, have gone: its parts are in others now."""
    primary = error.diag.message_primary or ""
    is_gone = error.sqlstate in ("42883", "42P01") and _CLAIMS.search(primary) is not None
    return is_gone or _is_function_gone(error.sqlstate, primary)


def _is_function_gone(state: str | None, primary: str) -> bool:
    """A call that waited inside a function of a segment, or of a queue, while that was dropped."""
    return state == "XX000" and primary.startswith("cache lookup failed for function")


def is_ours(error: TrunklineError) -> bool:
    """Whether one of our functions in the server said it, and not the way to it: a database may be missing too."""
    said = error.__cause__
    return isinstance(said, psycopg.Error) and (said.sqlstate or "").startswith("TL")


def may_pass(error: BaseException) -> bool:
    """Whether the same work may succeed later without a change: the server is away, or somebody was in the way.

    Looks through causes: what stands between an application and the driver raises errors of its own from the driver's.
    A statement that was cancelled is not among them, unless the time-out was ours.
    """
    if isinstance(error, TrunklineError):
        return error.retryable or isinstance(error, errors.ReadOnly)
    if isinstance(error, psycopg.Error) and not isinstance(error, psycopg.InterfaceError):
        return isinstance(translate(error), errors.Conflict | errors.Unavailable | errors.ReadOnly)
    return error.__cause__ is not None and may_pass(error.__cause__)


def _translate_ours(state: str, message: str, detail: str) -> TrunklineError:
    found = errors.class_of(state) or errors.ServerError
    if issubclass(found, errors.OffsetOutOfRange):
        valid = _RANGE.match(detail)
        if valid:
            return found(message, start=int(valid[1]), end=int(valid[2]))
    if issubclass(found, errors.Fenced):
        return found(message, cursor_ids=[int(number) for number in detail.split(",")])
    return found(message)


def _translate_connection(said: str, is_lost: bool) -> TrunklineError:
    text = " ".join(said.split())
    found = next((cls for words, cls in _BY_WORDS if words in text), None)
    if found is None:
        found = errors.Unavailable if is_lost else errors.ServerError
    return found(_sentence(text, _NEXT_STEP.get(found)))


def _sentence(what: str, next_step: str | None) -> str:
    return f"{what}; {next_step}" if next_step else what
