"""From what the caller gave to a parcel: checked, and as columns."""

from __future__ import annotations

from collections.abc import Iterable

from trunkline.engine.batching import Parcel
from trunkline.engine.checks import (
    INT4_MAX,
    check_attributes,
    check_delay,
    check_headers,
    check_key,
    check_limits,
    check_payload,
    check_whole,
)
from trunkline.errors import InvalidArgument
from trunkline.records import DELIVER_AFTER_HEADER, GROUP_KEY_HEADER, HeaderPairs, Message, Topic


def pack_one(
    payload: object,
    key: object,
    headers: object,
    partition: object,
    topic: Topic,
    group_key: object = None,
    deliver_after_s: object = 0.0,
) -> Parcel:
    """A parcel of one record."""
    checked = check_payload(payload)
    checked_key = check_key(key)
    pairs = check_headers(headers)
    if group_key is not None:
        pairs = _with_group_key(pairs, group_key)
    if deliver_after_s != 0.0:
        pairs = _with_delay(pairs, check_delay("deliver_after_s", deliver_after_s, topic))
    chosen = None if partition is None else check_whole("partition", partition, most=INT4_MAX)
    check_limits(topic, checked_key, checked, pairs)
    return Parcel([checked], None if checked_key is None else [checked_key], [pairs] if pairs else None, chosen)


def pack_many(messages: Iterable[Message | bytes], partition: object, topic: Topic) -> Parcel:
    """A parcel of many records; nothing is packed where one of them cannot be."""
    chosen = None if partition is None else check_whole("partition", partition, most=INT4_MAX)
    given = _materialised(messages)
    # Plain payloads are checked without a step a record.
    if set(map(type, given)) <= {bytes}:
        payloads: list[bytes] = given  # type: ignore[assignment]
        lengths = list(map(len, payloads))
        if max(lengths, default=0) > topic.record_bytes_max:
            check_limits(topic, None, max(payloads, key=len), ())
        return Parcel(payloads, partitions=chosen, lengths=lengths)
    packed = [_of_message(message, chosen, topic) for message in given]
    keys = [parcel.keys[0] if parcel.keys else None for parcel in packed]
    headers = [parcel.headers[0] if parcel.headers else () for parcel in packed]
    partitions = [parcel.partitions if isinstance(parcel.partitions, int) else None for parcel in packed]
    return Parcel(
        [parcel.payloads[0] for parcel in packed],
        keys if any(key is not None for key in keys) else None,
        headers if any(headers) else None,
        partitions if any(number is not None for number in partitions) else None,
    )


def pack_each(messages: Iterable[Message | bytes], topic: Topic) -> tuple[Parcel, dict[int, InvalidArgument]]:
    """A parcel of those that can be packed, and for the others, by their place, what is wrong with each."""
    given = _materialised(messages)
    try:
        return pack_many(given, None, topic), {}
    except InvalidArgument:
        refused: dict[int, InvalidArgument] = {}
    sound: list[Message | bytes] = []
    for place, message in enumerate(given):
        try:
            pack_many([message], None, topic)
        except InvalidArgument as error:
            refused[place] = error
        else:
            sound.append(message)
    return pack_many(sound, None, topic), refused


def _of_message(message: object, chosen: int | None, topic: Topic) -> Parcel:
    if not isinstance(message, Message):
        return pack_one(message, None, None, chosen, topic)
    partition = chosen if message.partition is None else message.partition
    headers: object = message.headers
    if message.attributes:
        headers = (*check_headers(headers), *check_attributes(message.attributes).items())
    what = (message.body, message.key, headers, partition, topic)
    return pack_one(*what, message.group_key, message.deliver_after_s)


def _with_group_key(headers: HeaderPairs, group_key: object) -> HeaderPairs:
    """The group key as a header, in the place of one that the headers were passed on with."""
    checked = check_key(group_key)
    assert checked is not None
    return (*(pair for pair in headers if pair[0] != GROUP_KEY_HEADER), (GROUP_KEY_HEADER, checked))


def _with_delay(headers: HeaderPairs, delay_s: float) -> HeaderPairs:
    """The delay as a header, in the place of one that the headers were passed on with."""
    text = f"{delay_s:.6f}".rstrip("0").rstrip(".")
    return (*(pair for pair in headers if pair[0] != DELIVER_AFTER_HEADER), (DELIVER_AFTER_HEADER, text.encode()))


def _materialised(messages: Iterable[Message | bytes]) -> list[Message | bytes]:
    if isinstance(messages, bytes | bytearray | memoryview | str | Message):
        raise InvalidArgument("publish_many takes many messages; for one, call publish, or put it into a list")
    if not isinstance(messages, Iterable):
        raise InvalidArgument(f"publish_many takes an iterable of messages, not {type(messages).__name__}")
    return list(messages)
