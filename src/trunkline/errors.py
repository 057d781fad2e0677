"""Every error that Trunkline raises on purpose.

    TrunklineError
    ├── InvalidArgument          TL001   a value that can never work; nothing was sent or written
    │   └── TooLarge             TL004   over a limit of the topic, or over a hard maximum
    ├── NotFound                 TL002   no such topic, partition, group
    ├── AlreadyExists            TL003   the name is taken
    ├── OffsetOutOfRange         TL005   outside the log; carries the valid range
    ├── LogDiverged              TL006   the log is not the one this position was taken from
    ├── ProducerError
    │   ├── ProducerFenced       TL007   a newer epoch of this producer has published
    │   ├── SequenceGap          TL008   a sequence number is missing, or too old to be proven
    │   └── ProducerExpired      TL009   the server has forgotten this producer
    ├── KeyOrderAtRisk           TL010   adding partitions would send a key elsewhere
    ├── LogBroken                TL011   the log contradicts itself; never expected
    ├── RoutingStale             TL012   the partition count changed; route again      (retryable)
    ├── Fenced                   TL013   a partition was lost to another member; nothing was written
    ├── InUse                    TL014   two tasks use one consumer at the same time
    ├── HandlerStuck             TL015   a handler did not return in time; its partitions were given up
    ├── GroupActive              TL016   the group has living members
    ├── HandlerFailed            TL017   a handler raised too often, and there is no dead letter topic
    ├── CheckpointRewound        TL018   another run has published this batch: the checkpoint is not the newest
    ├── StageLost                TL019   what a job has staged is not all there; nothing was published
    ├── SchemaError
    │   ├── SchemaMissing        TL020   `trunkline db install` has not run here
    │   ├── SchemaOutdated       TL021   `trunkline db upgrade` is due
    │   ├── ClientOutdated       TL022   the schema no longer serves this client
    │   ├── SchemaForeign        TL023   a schema of our name that is not ours
    │   └── SchemaDamaged        TL024   `trunkline db verify` found differences
    ├── NotConfigured            TL030   no server was named, and no `trunkline dev` is running
    ├── Unavailable              TL032   the server cannot be reached, or went away   (retryable)
    ├── DeadlineExceeded         TL033   the caller's time is over                    (retryable)
    ├── OutcomeUnknown           TL034   the reply to COMMIT was lost and could not be resolved
    ├── PermissionDenied         TL035   wrong password, or a missing grant
    ├── Conflict                 TL036   serialization failure, deadlock, lock wait over (retryable)
    ├── ReadOnly                 TL037   a standby, or a read-only transaction
    ├── ServerError              TL038   any other error of the server
    ├── EmbeddedServerError      TL040   the development server could not be started
    ├── QueryFailed              TL042   a query of a pipeline has ended with an error
    ├── TransactionTooLarge      TL043   a transaction that is to be delivered whole is over the consumer's limit
    ├── ClaimLost                TL044   records of a queue are no longer this reader's; others get them
    ├── FailedPrecondition       TL045   not in this state: settled already, opened in another event loop
    │   ├── Closed               TL031   used after close, or in a forked child
    │   └── NotSupported         TL046   the driver has no such capability; carries the driver and the capability
    │       └── AckNotSupported  TL047   the driver cannot take a message back, or knows no deadline for it
    ├── Cancelled                TL048   given up before it was begun: nothing was done
    └── DriverError              TL049   a driver raised what it should not, or broke its contract

`code` is stable and is what programs compare; messages are for people and say what to do next.
`retryable` says whether the same call may succeed later without a change. In SQL the same codes
are SQLSTATEs (`raise … using errcode = 'TL002'`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar


class TrunklineError(Exception):
    """Base of all of them."""

    code: ClassVar[str] = "TL000"
    retryable: ClassVar[bool] = False


class InvalidArgument(TrunklineError, ValueError):
    code = "TL001"


class NotFound(TrunklineError, LookupError):
    code = "TL002"


class AlreadyExists(TrunklineError):
    code = "TL003"


class TooLarge(InvalidArgument):
    code = "TL004"


class OffsetOutOfRange(TrunklineError, LookupError):
    """The offset is not in the log, which holds ``[start, end)``."""

    code = "TL005"

    def __init__(self, message: str, *, start: int | None = None, end: int | None = None) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


class LogDiverged(TrunklineError):
    code = "TL006"


class ProducerError(TrunklineError):
    """Base of what can go wrong with an idempotent producer."""


class ProducerFenced(ProducerError):
    code = "TL007"


class SequenceGap(ProducerError):
    code = "TL008"


class ProducerExpired(ProducerError):
    code = "TL009"


class KeyOrderAtRisk(TrunklineError):
    code = "TL010"


class LogBroken(TrunklineError):
    code = "TL011"


class RoutingStale(TrunklineError):
    code = "TL012"
    retryable = True


class Fenced(TrunklineError):
    """Another member holds the partition now, or an administrator has moved the group: nothing was written.

    ``partitions`` are those that were lost, as (topic, partition); ``cursor_ids`` are their numbers in the database.
    """

    code = "TL013"

    def __init__(
        self, message: str, *, partitions: Sequence[tuple[str, int]] = (), cursor_ids: Sequence[int] = ()
    ) -> None:
        super().__init__(message)
        self.partitions = list(partitions)
        self.cursor_ids = list(cursor_ids)


class InUse(TrunklineError):
    code = "TL014"


class HandlerStuck(TrunklineError):
    code = "TL015"


class GroupActive(TrunklineError):
    code = "TL016"


class HandlerFailed(TrunklineError):
    code = "TL017"


class CheckpointRewound(TrunklineError):
    code = "TL018"


class StageLost(TrunklineError):
    code = "TL019"


class SchemaError(TrunklineError):
    """Base of what can be wrong with the installation in the database."""


class SchemaMissing(SchemaError):
    code = "TL020"


class SchemaOutdated(SchemaError):
    code = "TL021"


class ClientOutdated(SchemaError):
    code = "TL022"


class SchemaForeign(SchemaError):
    code = "TL023"


class SchemaDamaged(SchemaError):
    code = "TL024"


class NotConfigured(TrunklineError):
    code = "TL030"


class Unavailable(TrunklineError, ConnectionError):
    code = "TL032"
    retryable = True


class DeadlineExceeded(TrunklineError, TimeoutError):
    code = "TL033"
    retryable = True


class OutcomeUnknown(TrunklineError):
    code = "TL034"


class PermissionDenied(TrunklineError):
    code = "TL035"


class Conflict(TrunklineError):
    code = "TL036"
    retryable = True


class ReadOnly(TrunklineError):
    code = "TL037"


class ServerError(TrunklineError):
    code = "TL038"


class EmbeddedServerError(TrunklineError):
    code = "TL040"


class QueryFailed(TrunklineError):
    code = "TL042"


class TransactionTooLarge(TrunklineError):
    """A consumer that reads whole transactions has met one that is over its limit. Its cursor stays before it, at
    ``offset``; nothing of the transaction was handed out."""

    code = "TL043"

    def __init__(self, message: str, *, topic: str, partition: int, offset: int, transaction_id: int | None) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.transaction_id = transaction_id


class ClaimLost(TrunklineError):
    """Records of a queue are no longer held by whoever wants to settle them: their deadline has passed, or they were
    given back. They were not settled. ``offsets`` are theirs, ``places`` the same as (partition, offset)."""

    code = "TL044"

    def __init__(self, message: str, *, places: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__(message)
        self.places = list(places)
        self.offsets = [offset for _, offset in places]


class FailedPrecondition(TrunklineError):
    code = "TL045"


class Closed(FailedPrecondition):
    code = "TL031"


class NotSupported(FailedPrecondition):
    """The driver named ``driver`` cannot do what was asked of it: it lacks the ``capability``."""

    code = "TL046"

    def __init__(self, message: str, *, driver: str = "", capability: str = "") -> None:
        super().__init__(message)
        self.driver = driver
        self.capability = capability


class AckNotSupported(NotSupported):
    code = "TL047"


class Cancelled(TrunklineError):
    code = "TL048"


class DriverError(TrunklineError):
    code = "TL049"


def _tree(root: type[TrunklineError]) -> Iterator[type[TrunklineError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def class_of(code: str) -> type[TrunklineError] | None:
    """The class that carries a code, for errors that arrive from SQL."""
    return next((cls for cls in _tree(TrunklineError) if "code" in vars(cls) and cls.code == code), None)
