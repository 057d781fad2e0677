"""URLs of topics and subscriptions: their parts, their parameters, and how they are shown to people.

    memory://orders?subscription=emails
    trunkline://user:password@host:5432/database/orders?queue=emails&ack_deadline_s=1m

The scheme is the driver's name, with or without ``pubsub+`` before it. A URL that cannot be read is never repeated in
an error: it may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from trunkline.engine.offsets import parse_duration
from trunkline.errors import InvalidArgument
from trunkline.nearest import nearest_name

PREFIX = "pubsub+"
HIDDEN = "***"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9.+-]*\Z", re.ASCII)
_SECRET = re.compile(r"pass|secret|token|credential|api_?key|signature", re.IGNORECASE)
_SWITCH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_LOOKS_LIKE = "it looks like memory://orders?subscription=emails"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a URL, decoded; ``parameters`` as they were written."""

    scheme: str
    host: str
    port: int | None
    path: str
    username: str | None
    password: str | None
    parameters: Mapping[str, str]

    def shown(self, secrets: Iterable[str] = ()) -> str:
        """The URL without its secrets: the password, and parameters that are called like one or that the driver says
        are one."""
        hidden = {name for name in self.parameters if _SECRET.search(name)} | set(secrets)
        port = "" if self.port is None else f":{self.port}"
        user = f"{quote(self.username, safe='')}@" if self.username else ""
        path = quote(self.path)
        given = {name: HIDDEN if name in hidden else value for name, value in self.parameters.items()}
        query = f"?{urlencode(given, safe='*/')}" if given else ""
        return f"{self.scheme}://{user}{self.host}{port}{path}{query}"

    def secrets(self, names: Iterable[str] = ()) -> frozenset[str]:
        """The words that must not be shown, as they are and as they stand in a URL."""
        declared = set(names)
        values = [value for name, value in self.parameters.items() if name in declared or _SECRET.search(name)]
        plain = [value for value in (self.password, *values) if value]
        return frozenset(form for value in plain for form in (value, quote(value), quote(value, safe="")))

    def __repr__(self) -> str:
        return f"Address({self.shown()})"


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret hidden, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def redact_error(error: BaseException, secrets: Collection[str]) -> None:
    """Hide every secret in what the error says; what is behind it goes, where that shows one."""
    if any(secret in str(error) for secret in secrets):
        error.args = tuple(redact(str(each), secrets) for each in error.args)
    notes = getattr(error, "__notes__", ())
    if notes:
        error.__notes__ = [redact(str(note), secrets) for note in notes]
    if any(secret in said for said in _said_behind(error) for secret in secrets):
        error.__cause__ = error.__context__ = None


def _said_behind(error: BaseException) -> Iterator[str]:
    """What the errors say that have led to it."""
    met: set[int] = {id(error)}
    ahead = [error.__cause__, error.__context__]
    while ahead:
        each = ahead.pop()
        if each is None or id(each) in met:
            continue
        met.add(id(each))
        yield f"{each} {each!r} {getattr(each, '__notes__', '')}"
        ahead += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def parse_address(url: object) -> Address:
    """The parts of a URL, or InvalidArgument that repeats nothing of it but its scheme."""
    if not isinstance(url, str):
        raise InvalidArgument(f"a URL must be text, not {type(url).__name__}")
    scheme, separator, _ = url.partition("://")
    if not separator or not _SCHEME.match(scheme):
        raise InvalidArgument(f"this is not a URL of a topic or subscription; {_LOOKS_LIKE}")
    if any(ord(sign) < 33 or ord(sign) == 127 for sign in url):
        raise InvalidArgument(f"the {scheme} URL has blanks or control characters; write them as %20 and the like")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument(f"the {scheme} URL cannot be read; is its host or port malformed?") from None
    if "#" in url:
        raise InvalidArgument(f"the {scheme} URL has a fragment; write # as %23")
    return Address(
        scheme=scheme.lower().removeprefix(PREFIX),
        host=_host(parts.netloc),
        port=port,
        path=_decoded(scheme, parts.path),
        username=None if parts.username is None else _decoded(scheme, parts.username),
        password=None if parts.password is None else _decoded(scheme, parts.password),
        parameters=_parameters(scheme, parts.query),
    )


def _host(netloc: str) -> str:
    """As it was written: the host may be a topic's name, where case matters."""
    place = netloc.rpartition("@")[2]
    if place.startswith("["):
        return place[1 : place.index("]")]
    return unquote(place.partition(":")[0])


def _decoded(scheme: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidArgument(f"the {scheme} URL has bytes after % that are not UTF-8") from None


def _parameters(scheme: str, query: str) -> dict[str, str]:
    if not query:
        return {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise InvalidArgument(
            f"the parameters of the {scheme} URL cannot be read; write ?name=value&name=value"
        ) from None
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InvalidArgument(f"parameter {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def typed_parameters(
    given: Mapping[str, str], known: Mapping[str, type], where: str, secrets: Collection[str] = ()
) -> dict[str, Any]:
    """The parameters as values of their types; an unknown one, or one that is malformed, is an error. Of those in
    ``secrets`` it shows no value."""
    for name in given:
        if name not in known:
            raise InvalidArgument(f"{where} has no parameter {name!r}; {nearest_name(name, known)}")
    return {name: _typed(name, text, known[name], secrets) for name, text in given.items()}


def _typed(name: str, text: str, kind: type, secrets: Collection[str]) -> Any:
    try:
        if kind is bool:
            return _SWITCH[text.lower()]
        if kind is float and name.endswith("_s"):
            return _seconds(text)
        return kind(text)
    except (KeyError, ValueError):
        shown = "that" if name in secrets or _SECRET.search(name) else ascii(text[:40])
        raise InvalidArgument(f"parameter {name!r} of the URL must be {_wanted(name, kind)}, not {shown}") from None


def _seconds(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    seconds = parse_duration(text).total_seconds()
    if seconds < 0:
        raise ValueError
    return seconds


def _wanted(name: str, kind: type) -> str:
    if kind is float and name.endswith("_s"):
        return "a duration: a number of seconds, or 250ms, 30s, 5m, 1h"
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "text")
