"""Values that people write with units, and pairs that they write with an equals sign."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from trunkline.errors import InvalidArgument

PARTITION = click.IntRange(0, 1023)

_SIZES = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)},
}


_SWITCHED = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def parse_bytes(text: str) -> int:
    """``500MB``, ``10GiB``, or a number of bytes."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?) ?([A-Za-z]*)", text, re.ASCII)
    factor = _SIZES.get(found[2].lower()) if found else None
    if not found or factor is None:
        raise InvalidArgument(f"not a size: {text!r}; write for example 65536, 500MB or 10GiB")
    return _whole(text, float(found[1]) * factor if "." in found[1] else int(found[1]) * factor)


def parse_seconds(text: str) -> int:
    """``7d``, ``12h``, ``1h30m``, or a number of seconds."""
    from trunkline.engine.offsets import parse_duration

    if text.lstrip("-").isdigit():
        return _number(text)
    return _whole(text, parse_duration(text).total_seconds())


def _number(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise InvalidArgument(f"not a whole number: {text!r}")
    return int(text)


def _whole(text: str, value: float) -> int:
    if value != int(value):
        raise InvalidArgument(f"{text!r} is not a whole number of its smallest unit")
    return int(value)


def parse_setting(name: str, text: str) -> int | bool | None:
    """The value of a topic's setting: ``none``, ``on`` or ``off``, a duration, a size or a number, as its name says."""
    from trunkline.settings import SWITCHES

    if text.lower() == "none":
        return None
    if name in SWITCHES:
        if text.lower() not in _SWITCHED:
            raise InvalidArgument(f"{name}: not a switch: {text!r}; write on or off")
        return _SWITCHED[text.lower()]
    try:
        if name.endswith("_s"):
            return parse_seconds(text)
        if "bytes" in name:
            return parse_bytes(text)
        return _number(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from error


def parse_settings(pairs: Iterable[tuple[str, str]]) -> dict[str, int | bool | None]:
    """The settings of a topic; one that does not exist is an error that names the nearest."""
    from trunkline.settings import TopicSettings

    given: dict[str, str] = {}
    for name, text in pairs:
        if name in given:
            raise InvalidArgument(f"{name} is set twice, to {given[name]!r} and to {text!r}")
        given[name] = text
    TopicSettings.of(dict.fromkeys(given))
    return {name: parse_setting(name, text) for name, text in given.items()}


def pairs_option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """A repeatable option whose values are NAME=VALUE."""
    return click.option(*names, multiple=True, metavar="NAME=VALUE", callback=_pairs, **attributes)


def _pairs(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [value.partition("=") for value in values]
    for value, (name, equals, _value) in zip(values, pairs, strict=True):
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param=parameter)
    return [(name, value) for name, _equals, value in pairs]


class Seconds(click.ParamType[float]):
    """A duration on the command line, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            seconds = parse_seconds(value) if value.isdigit() else _duration_s(value)
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)
        if not 0 < seconds <= 86400 * 365:
            self.fail(f"{value!r} is not between 0 and a year", param, ctx)
        return seconds


def _duration_s(text: str) -> float:
    from trunkline.engine.offsets import parse_duration

    return parse_duration(text).total_seconds()
