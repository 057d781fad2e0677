"""When a record was published, in its own first bytes: on the clock that all processes of one machine share."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

_FORM = struct.Struct("<d")
STAMP_BYTES = _FORM.size
_stamp_of = itemgetter(slice(0, STAMP_BYTES))


def stamped(bodies: Sequence[bytes], moment: float) -> list[bytes]:
    """Payloads that begin with the moment."""
    stamp = _FORM.pack(moment)
    return [stamp + body for body in bodies]


def moments(payloads: Sequence[bytes]) -> list[tuple[float, int]]:
    """The moments in some payloads, with how many have each."""
    return [(_FORM.unpack(stamp)[0], count) for stamp, count in Counter(map(_stamp_of, payloads)).items()]
