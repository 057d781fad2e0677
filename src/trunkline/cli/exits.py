"""What the command's exit codes mean. Documented in docs/exit-codes.md, which a test compares with this table."""

from __future__ import annotations

from trunkline import errors
from trunkline.errors import TrunklineError

OK = 0
FAILURE = 1
USAGE = 2
NOT_FOUND = 3
UNAVAILABLE = 4
PERMISSION = 5
CONFLICT = 6
UNKNOWN_OUTCOME = 7
HUNG_UP = 129
INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143

MEANINGS = {
    OK: "done",
    FAILURE: "failed; for doctor and group check: a problem was found",
    USAGE: "wrong usage, or a value that can never work",
    NOT_FOUND: "not found, or not running: topic, partition, offset, group, server",
    UNAVAILABLE: "the server did not answer in time; the same command may work later",
    PERMISSION: "not allowed: password, grants, or a server that takes no writes",
    CONFLICT: "the state of the database forbids it: exists already, another schema, key order",
    UNKNOWN_OUTCOME: "the connection broke at the commit: it may or may not have been done",
    HUNG_UP: "the terminal was closed",
    INTERRUPTED: "Ctrl-C",
    CLOSED_PIPE: "the reader of our output went away",
    TERMINATED: "SIGTERM",
}

# The first class that fits counts, so a class stands before its base.
_BY_CLASS: tuple[tuple[type[TrunklineError], int], ...] = (
    (errors.InvalidArgument, USAGE),
    (errors.NotFound, NOT_FOUND),
    (errors.OffsetOutOfRange, NOT_FOUND),
    (errors.NotConfigured, NOT_FOUND),
    (errors.Unavailable, UNAVAILABLE),
    (errors.DeadlineExceeded, UNAVAILABLE),
    (errors.Conflict, UNAVAILABLE),
    (errors.RoutingStale, UNAVAILABLE),
    (errors.EmbeddedServerError, UNAVAILABLE),
    (errors.PermissionDenied, PERMISSION),
    (errors.ReadOnly, PERMISSION),
    (errors.AlreadyExists, CONFLICT),
    (errors.KeyOrderAtRisk, CONFLICT),
    (errors.LogDiverged, CONFLICT),
    (errors.Fenced, CONFLICT),
    (errors.InUse, CONFLICT),
    (errors.ClaimLost, CONFLICT),
    (errors.GroupActive, CONFLICT),
    (errors.CheckpointRewound, CONFLICT),
    (errors.ProducerError, CONFLICT),
    (errors.SchemaDamaged, FAILURE),
    (errors.SchemaError, CONFLICT),
    (errors.OutcomeUnknown, UNKNOWN_OUTCOME),
)


def exit_code_of(kind: type[TrunklineError]) -> int:
    """The exit code of a command that ended with an error of this class."""
    return next((code for cls, code in _BY_CLASS if issubclass(kind, cls)), FAILURE)
