"""Whether a message can be sent through any broker, before anything is sent."""

from __future__ import annotations

from trunkline.engine.checks import check_attributes, check_key
from trunkline.errors import InvalidArgument
from trunkline.portable.driver import Outgoing
from trunkline.records import Message

_OF_THE_LOG = {"headers": None, "partition": None, "group_key": None, "deliver_after_s": 0.0}


def outgoing(message: object) -> Outgoing:
    """The message as drivers take it; InvalidArgument for what no broker could carry."""
    if type(message) is bytes:
        return Outgoing(message, None, {})
    if not isinstance(message, Message):
        return Outgoing(_body(message), None, {})
    if message.headers or message.partition is not None or message.group_key is not None or message.deliver_after_s:
        name = next(name for name, default in _OF_THE_LOG.items() if getattr(message, name) != default)
        raise InvalidArgument(
            f"{name} belongs to Trunkline's own log, and a message for any broker cannot have it; use attributes, "
            "or a client of trunkline.connect()"
        )
    body, attributes = message.body, message.attributes
    return Outgoing(
        body if type(body) is bytes else _body(body),
        check_key(message.key),
        check_attributes(attributes) if attributes is not None else {},
    )


def _body(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    hint = "; encode it, for example text.encode()" if isinstance(body, str) else ""
    raise InvalidArgument(f"a body must be bytes, not {type(body).__name__}{hint}")
