"""What a caller may set. Every limit has a name, a unit and a default; arguments win over ``TRUNKLINE_*``
variables, and those over the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from trunkline.errors import InvalidArgument
from trunkline.nearest import nearest_name

MIB = 1024 * 1024


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one client behaves. Seconds end in ``_s``.

    A connection is replaced once it is ``connection_age_s`` old, as its server process remembers what it has seen.
    ``deadline_s`` bounds every call, retries included; ``lock_timeout_s`` one wait for a partition that somebody
    else is writing; ``statement_timeout_s`` one reply of the server, after which its connection is given up.

    A process with consumers shows every ``heartbeat_s`` that it lives; the server gives its partitions to others once
    it has been silent for ``session_timeout_s``. With ``doorbell`` its consumers are woken by publishers that ``ring``;
    in any case they look for records every ``poll_max_s``.
    """

    connections_max: int = 4
    connection_age_s: float = 3600.0
    connect_timeout_s: float = 10.0
    deadline_s: float = 30.0
    statement_timeout_s: float = 20.0
    lock_timeout_s: float = 5.0
    retry_first_s: float = 0.02
    retry_max_s: float = 1.0
    idempotent: bool = True
    batch_bytes_max: int = MIB
    batch_records_max: int = 1_000
    record_alone_bytes: int = 64 * 1024
    buffer_bytes_max: int = 64 * MIB
    read_bytes_max: int = 8 * MIB
    heartbeat_s: float = 3.0
    session_timeout_s: float = 10.0
    poll_max_s: float = 1.0
    doorbell: bool = True
    ring: bool = True
    application_name: str = "trunkline"

    def __post_init__(self) -> None:
        _check_positive(
            self,
            (
                "connections_max",
                "batch_bytes_max",
                "batch_records_max",
                "record_alone_bytes",
                "buffer_bytes_max",
                "read_bytes_max",
                "connect_timeout_s",
                "connection_age_s",
                "deadline_s",
                "statement_timeout_s",
                "lock_timeout_s",
                "retry_first_s",
                "retry_max_s",
                "heartbeat_s",
                "session_timeout_s",
                "poll_max_s",
            ),
        )
        if self.session_timeout_s < 2 * self.heartbeat_s:
            raise InvalidArgument("session_timeout_s must be at least twice heartbeat_s: a late beat is not a death")
        if self.batch_records_max > 10_000 or self.batch_bytes_max > 64 * MIB:
            raise InvalidArgument(
                "a batch has at most 10,000 records and 64 MiB: lower batch_records_max or batch_bytes_max"
            )

    @property
    def lock_wait_s(self) -> float:
        """The longest single wait for a lock: never so long that the call could not be tried again."""
        return min(self.lock_timeout_s, self.deadline_s / 3)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ClientSettings:
        """The defaults, with what ``TRUNKLINE_<FIELD>`` variables say instead."""
        found: dict[str, Any] = {}
        for field in msgspec.structs.fields(cls):
            text = environment.get(f"TRUNKLINE_{field.name.upper()}")
            if text is not None:
                try:
                    found[field.name] = msgspec.convert(text, field.type, strict=False)
                except msgspec.ValidationError as error:
                    raise InvalidArgument(f"TRUNKLINE_{field.name.upper()}={text!r}: {error}") from error
        return cls(**found)


SWITCHES = ("retention_consumed", "notify_in_commit", "loose_commit_order")
"""Settings of a topic that are on or off."""

Delivery = Literal["at_most_once", "at_least_once", "exactly_once"]
By = Literal["group_key"]
OnOutOfRange = Literal["error", "earliest", "latest"]


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one consumer behaves.

    ``fetch_bytes_max`` is about how much it holds in memory beyond what it was asked for. While iterating, what was
    handled is committed every ``commit_interval_s``. A consumer that does not come back for ``handler_timeout_s`` gives
    its partitions up. ``on_out_of_range`` says what to do where retention has passed the group by. Where transactions
    are to be whole, one of more than ``transaction_records_max`` records, or ``transaction_bytes_max`` bytes, in a
    partition is TransactionTooLarge: about so much may be in memory for each. With ``partitions`` it takes these at
    most, of each of its topics; what no member of the group takes is read by nobody.
    """

    fetch_bytes_max: int = MIB
    transaction_records_max: int = 100_000
    transaction_bytes_max: int = 64 * MIB
    commit_interval_s: float = 1.0
    handler_timeout_s: float = 300.0
    on_out_of_range: OnOutOfRange = "error"
    name: str = ""
    partitions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        limits = ("transaction_records_max", "transaction_bytes_max")
        _check_positive(self, ("fetch_bytes_max", "commit_interval_s", "handler_timeout_s", *limits))
        _check_whole_numbers(self, limits)
        _check_out_of_range(self.on_out_of_range)
        _check_partitions(self.partitions)
        if not isinstance(self.name, str) or len(self.name) > 200 or "\0" in self.name:
            raise InvalidArgument("a consumer's name is text of at most 200 characters, without NUL")


class HandlerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an app treats one handler's records.

    One that fails is tried ``max_attempts`` times, ``retry_first_s`` after the first failure, then twice as long, up to
    ``retry_max_s``. A handler that has not returned after ``handler_timeout_s`` ends the app. What is done is committed
    every ``commit_interval_s``. About ``in_hand_max`` records, or ``in_hand_bytes_max`` bytes, of a partition are in
    memory at most. ``start`` says where a new group begins, ``on_out_of_range`` what to do where retention has passed
    it by. With ``blocked_keys``, for handlers by group key, later records of a key that failed wait for its redrive.
    With ``partitions`` this process takes these at most. Exactly once, a transaction handles ``batch_records_max``
    records at most.
    """

    max_attempts: int = 5
    retry_first_s: float = 0.5
    retry_max_s: float = 30.0
    handler_timeout_s: float = 300.0
    commit_interval_s: float = 1.0
    in_hand_max: int = 1_000
    in_hand_bytes_max: int = 4 * MIB
    start: Literal["earliest", "latest"] | int | datetime = "earliest"
    on_out_of_range: OnOutOfRange = "error"
    blocked_keys: bool = False
    partitions: tuple[int, ...] | None = None
    batch_records_max: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.blocked_keys, bool):
            raise InvalidArgument(f"blocked_keys must be True or False, not {self.blocked_keys!r}")
        _check_positive(
            self,
            (
                "batch_records_max",
                "max_attempts",
                "retry_first_s",
                "retry_max_s",
                "handler_timeout_s",
                "commit_interval_s",
                "in_hand_max",
                "in_hand_bytes_max",
            ),
        )
        _check_whole_numbers(self, ("max_attempts", "in_hand_max", "in_hand_bytes_max", "batch_records_max"))
        _check_out_of_range(self.on_out_of_range)
        _check_partitions(self.partitions)


class OutboxColumns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which columns of a table make a record.

    ``payload``: bytea as it is, text and JSON as UTF-8, other types as JSON. ``key`` and ``group_key``: text, uuid or
    whole numbers, as their text. ``headers``: JSON, an object of text values.
    """

    payload: str
    key: str | None = None
    group_key: str | None = None
    headers: str | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name != "payload":
                continue
            if not isinstance(value, str) or not value or "\0" in value:
                raise InvalidArgument(f"{name} must be the name of a column, not {value!r}")


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic may be given when it is created or altered; what is left out keeps its value.

    ``None`` takes a limit of retention away, and puts any other setting back to its default. With
    ``retention_consumed`` records also go once every group has passed them, and the other limits of retention, of which
    one must be set, are the cap. With ``notify_in_commit`` readers are woken by the commit itself, also of publishers
    in plain SQL.

    With ``loose_commit_order`` what is published in callers' transactions gets its place after their commits, from
    whoever rings or polls next: commits wait for nobody, and two transactions may stand in another order than they
    committed in, even where the second has seen the first.
    """

    retention_age_s: int | msgspec.UnsetType | None = msgspec.UNSET
    retention_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    segment_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    segment_age_s: int | msgspec.UnsetType | None = msgspec.UNSET
    record_bytes_max: int | msgspec.UnsetType | None = msgspec.UNSET
    batch_bytes_max: int | msgspec.UnsetType | None = msgspec.UNSET
    batch_records_max: int | msgspec.UnsetType | None = msgspec.UNSET
    key_bytes_max: int | msgspec.UnsetType | None = msgspec.UNSET
    header_count_max: int | msgspec.UnsetType | None = msgspec.UNSET
    header_bytes_max: int | msgspec.UnsetType | None = msgspec.UNSET
    retention_consumed: bool | msgspec.UnsetType | None = msgspec.UNSET
    notify_in_commit: bool | msgspec.UnsetType | None = msgspec.UNSET
    loose_commit_order: bool | msgspec.UnsetType | None = msgspec.UNSET

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if name in SWITCHES:
                if value is not None and not isinstance(value, bool):
                    raise InvalidArgument(f"{name} must be True, False or None, not {value!r}")
            elif value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise InvalidArgument(f"{name} must be a whole number or None, not {value!r}")

    def given(self) -> dict[str, int | None]:
        """The settings that were given, and nothing else."""
        every = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in every if value is not msgspec.UNSET}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> TopicSettings:
        """From names and values; an unknown name is an error that names the nearest one."""
        for name in given:
            if name not in cls.__struct_fields__:
                raise InvalidArgument(f"a topic has no setting {name!r}; {nearest_name(name, cls.__struct_fields__)}")
        return cls(**given)


class SendSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one topic of the portable API sends.

    Messages that are sent while a batch is under way make the next one, of at most ``batch_messages_max`` messages and
    about ``batch_bytes_max`` bytes; with ``send_wait_s`` each batch waits so long for more. At most
    ``buffer_bytes_max`` wait in line. ``deadline_s`` bounds every call, attempts after a failure included;
    ``close_timeout_s`` how long close waits for what is under way.
    """

    send_wait_s: float = 0.0
    batch_messages_max: int = 1_000
    batch_bytes_max: int = MIB
    buffer_bytes_max: int = 64 * MIB
    deadline_s: float = 30.0
    close_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        limits = ("batch_messages_max", "batch_bytes_max", "buffer_bytes_max")
        _check_positive(self, (*limits, "deadline_s", "close_timeout_s"))
        _check_whole_numbers(self, limits)
        _check_wait(self, "send_wait_s")


class ReceiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one subscription of the portable API receives.

    What was received is held for ``ack_deadline_s``, where the broker lets its reader say so; None: as the broker is
    set. Acknowledgements at the same time go together, at most ``ack_batch_max``; with ``ack_wait_s`` each batch of
    them waits so long for more. At most ``prefetch_max`` messages, of about ``prefetch_bytes_max`` bytes, are taken
    from the broker before they are asked for; with 0 none is. ``deadline_s`` bounds every call of the broker, attempts
    after a failure included; ``close_timeout_s`` how long close waits for what is under way.
    """

    ack_wait_s: float = 0.0
    ack_deadline_s: float | None = None
    ack_batch_max: int = 1_000
    prefetch_max: int = 1_000
    prefetch_bytes_max: int = 8 * MIB
    deadline_s: float = 30.0
    close_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        limits = ("ack_batch_max", "prefetch_bytes_max")
        _check_positive(self, (*limits, "deadline_s", "close_timeout_s"))
        _check_whole_numbers(self, (*limits, "prefetch_max"))
        if isinstance(self.prefetch_max, bool) or not 0 <= self.prefetch_max <= 100_000:
            raise InvalidArgument(f"prefetch_max must be 0 to 100000, not {self.prefetch_max!r}")
        if self.ack_deadline_s is not None:
            _check_positive(self, ("ack_deadline_s",))
        _check_wait(self, "ack_wait_s")


def _check_wait(settings: msgspec.Struct, name: str) -> None:
    value = getattr(settings, name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 60:
        raise InvalidArgument(f"{name} must be a number of seconds from 0 to 60, not {value!r}")


def _check_out_of_range(policy: object) -> None:
    if policy not in get_args(OnOutOfRange):
        raise InvalidArgument(f"on_out_of_range must be error, earliest or latest, not {policy!r}")


def _check_whole_numbers(settings: msgspec.Struct, names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(getattr(settings, name), int):
            raise InvalidArgument(f"{name} must be a whole number, not {getattr(settings, name)!r}")


def _check_partitions(partitions: object) -> None:
    if partitions is None:
        return
    whole = isinstance(partitions, tuple) and all(type(each) is int and 0 <= each < 2**31 for each in partitions)
    if not whole or not partitions:
        raise InvalidArgument(f"partitions must be a tuple of whole numbers from 0 on, or None, not {partitions!r}")


def _check_positive(settings: msgspec.Struct, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(settings, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < float("inf"):
            raise InvalidArgument(f"{name} must be a positive number, not {value!r}")
