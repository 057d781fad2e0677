"""YAML whose every value knows its line, and what may be asked of it: text, numbers, durations, lists, blocks.

Whatever is wrong is InvalidArgument, and says where: ``revenue.yml:14: step 2 (by_minute): …``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from trunkline.errors import InvalidArgument, NotFound, TrunklineError
from trunkline.nearest import nearest_name

FILE_BYTES_MAX = 256 * 1024

_TEXT = "tag:yaml.org,2002:str"
_WHOLE = "tag:yaml.org,2002:int"
_NUMBER = "tag:yaml.org,2002:float"
_SWITCH = "tag:yaml.org,2002:bool"
_TIME = "tag:yaml.org,2002:timestamp"
_NOTHING = "tag:yaml.org,2002:null"
_SHOWN = {_TEXT: "text", _WHOLE: "a number", _NUMBER: "a number", _SWITCH: "true or false", _TIME: "a time"}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([a-z]+)", re.ASCII)
_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


@dataclass(frozen=True)
class Place:
    """Where something stands: the file, its line (from 1), and what it belongs to, like ``step 2 (by_minute)``."""

    file: str
    line: int
    what: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}".removesuffix(": ")

    def at(self, line: int) -> Place:
        return replace(self, line=line)

    def called(self, what: str) -> Place:
        return replace(self, what=what)

    def error(self, message: object) -> InvalidArgument:
        """What is wrong here, to be raised."""
        return InvalidArgument(f"{self}: {message}")


@dataclass(frozen=True)
class Text:
    """Text of the file, and where it stands. Lines of a block (``|``) can be told apart."""

    value: str
    place: Place
    is_block: bool = False

    def line_of(self, line: int) -> Place:
        """Where a line of this text, counted from 1, stands in the file; its first one where lines were folded."""
        last = self.value.count("\n", 0, len(self.value.rstrip())) + 1
        return self.place.at(self.place.line + min(max(line, 1), last)) if self.is_block else self.place

    @property
    def first_line(self) -> Place:
        return self.line_of(1)


class Value:
    """One value of the file."""

    def __init__(self, node: yaml.Node, place: Place) -> None:
        self.node = node
        self.place = place.at(node.start_mark.line + 1)

    def text(self) -> Text:
        self._expect(_TEXT, "text")
        if not self.node.value.strip():
            raise self.place.error("is empty")
        return Text(self.node.value, self.place, is_block=getattr(self.node, "style", None) == "|")

    def time_or_text(self) -> str:
        """Text, or a time, which YAML takes for something else unless it is quoted."""
        return str(self.node.value) if self._is(_TIME) else self.text().value

    def whole(self, *, least: int = 1) -> int:
        self._expect(_WHOLE, "a whole number")
        found = re.fullmatch(r"[+-]?\d[\d_]*", self.node.value)
        if not found or int(found[0]) < least:
            raise self.place.error(f"must be a whole number from {least} on, not {self.node.value}")
        return int(found[0])

    def seconds(self) -> float:
        """A number of seconds, above 0."""
        if not self._is(_NUMBER):
            self._expect(_WHOLE, "a number of seconds")
        try:
            found = float(self.node.value.replace("_", ""))
        except ValueError:  # what only YAML takes for a number: 0x10, 1:30
            found = 0.0
        if not 0 < found < float("inf"):
            raise self.place.error(f"must be a number of seconds above 0, not {self.node.value}")
        return found

    def switch(self) -> bool:
        self._expect(_SWITCH, "true or false")
        return str(self.node.value).lower() in ("true", "yes", "on")

    def plain(self) -> str:
        """Any single value, as it was written."""
        if not isinstance(self.node, yaml.ScalarNode) or self._is(_NOTHING):
            raise self.place.error(f"must be one value, not {self._shown()}")
        return str(self.node.value)

    def duration_ms(self) -> int:
        """``500 ms``, ``5 s``, ``1 minute``."""
        if not isinstance(self.node, yaml.ScalarNode) or self._is(_NOTHING):
            raise self.place.error(f"must be a time like 5 s or 1 minute, not {self._shown()}")
        found = _DURATION.fullmatch(self.node.value.strip())
        if not found or found[2] not in _UNITS_MS:
            raise self.place.error(f"must be a time like 500 ms, 5 s, 1 minute or 2 h, not {self.node.value!r}")
        return round(float(found[1]) * _UNITS_MS[found[2]])

    def items(self) -> list[Value]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.place.error(f"must be a list, not {self._shown()}")
        return [Value(item, self.place) for item in self.node.value]

    def texts(self) -> list[str]:
        """A list of text, each once."""
        values = self.items()
        found: list[str] = []
        for value in values:
            text = value.text().value
            if text in found:
                raise value.place.error(f"{text!r} stands in the list twice")
            found.append(text)
        if not found:
            raise self.place.error("is an empty list")
        return found

    def choice(self, *known: str) -> str:
        text = self.text().value
        if text not in known:
            raise self.place.error(f"there is no {text!r} here; {nearest_name(text, known)}")
        return text

    @property
    def is_text(self) -> bool:
        return self._is(_TEXT)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_block(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_nothing(self) -> bool:
        return self._is(_NOTHING)

    def _is(self, tag: str) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == tag

    def _expect(self, tag: str, wanted: str) -> None:
        if not self._is(tag):
            quoted = " (put it in quotes)" if tag == _TEXT and self.node.tag in _SHOWN else ""
            raise self.place.error(f"must be {wanted}, not {self._shown()}{quoted}")

    def _shown(self) -> str:
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        if isinstance(self.node, yaml.MappingNode):
            return "a block"
        return "nothing" if self._is(_NOTHING) else _SHOWN.get(self.node.tag, f"a {self.node.tag}")


class Block:
    """Names and values. A name that stands there twice, or is not known, is an error."""

    def __init__(self, value: Value, what: str | None = None) -> None:
        self.place = value.place if what is None else value.place.called(what)
        if not isinstance(value.node, yaml.MappingNode):
            raise self.place.error(f"must be a block of names and values, not {value._shown()}")  # noqa: SLF001
        self._nodes: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, node in value.node.value:
            self._add(key, node)

    def _add(self, key: yaml.Node, node: yaml.Node) -> None:
        place = self.place.at(key.start_mark.line + 1)
        if not isinstance(key, yaml.ScalarNode):
            raise place.error("a name must be plain text")
        if key.value in self._nodes:
            first = self._nodes[key.value][0].start_mark.line + 1
            raise place.error(f"{key.value!r} stands here for the second time; the first is in line {first}")
        self._nodes[key.value] = (key, node)

    def called(self, what: str) -> Block:
        """The same, under another name for its errors."""
        other = object.__new__(Block)
        other.place, other._nodes = self.place.called(what), self._nodes
        return other

    def __iter__(self) -> Iterable[str]:
        return iter(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    @property
    def names(self) -> list[str]:
        return list(self._nodes)

    def only(self, known: Iterable[str], what: str) -> None:
        """Refuse every other name; ``what`` is what has the known ones."""
        names = tuple(known)
        for name in self._nodes:
            if name not in names:
                raise self.place_of(name).error(f"{what} has no {name!r}; {nearest_name(name, names)}")

    def place_of(self, name: str) -> Place:
        return self.place.at(self._nodes[name][0].start_mark.line + 1)

    def find(self, name: str) -> Value | None:
        """The value of a name; None where it is not there."""
        if name not in self._nodes:
            return None
        what = f"{self.place.what}, {name}".removeprefix(", ")
        key, node = self._nodes[name]
        value = Value(node, self.place.called(what))
        # A value that is missing has its mark wherever the next one stands.
        value.place = value.place if not value.is_nothing else value.place.at(key.start_mark.line + 1)
        return value

    def get(self, name: str, example: str) -> Value:
        """As ``find``, where it must be there."""
        found = self.find(name)
        if found is None:
            raise self.place.error(f"needs {name!r}, like {example}")
        return found

    def one_of(self, kinds: Iterable[str], what: str) -> str:
        """Which one of the kinds this is: exactly one must be there."""
        known = tuple(kinds)
        given = [name for name in self._nodes if name in known]
        if len(given) > 1:
            raise self.place_of(given[1]).error(
                f"{what} is of one kind, and this has {' and '.join(given)}; make it two"
            )
        if not given:
            raise self.place.error(
                f"{what} needs one of {', '.join(known)}; this has {', '.join(self._nodes) or 'nothing'}"
            )
        return given[0]


def read(path: Path, what: str, needs: str) -> Value:
    """The one document of a file; ``what`` it is, as "pipeline", and what such a file ``needs``, for errors."""
    shown = str(path)
    try:
        content = path.read_bytes()[: FILE_BYTES_MAX + 1]
    except FileNotFoundError:
        raise NotFound(f"there is no file {shown}; write one: {needs}") from None
    except OSError as error:
        raise InvalidArgument(f"{shown} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise InvalidArgument(f"{shown} is over {FILE_BYTES_MAX // 1024} KiB, which is no {what} file")
    return _compose(_decoded(content, shown), shown, needs)


def _decoded(content: bytes, shown: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Place(shown, line).error(
            f"byte {content[error.start]:#04x} is not UTF-8; save the file as UTF-8"
        ) from None


def _compose(text: str, shown: str, needs: str) -> Value:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _malformed(error, shown) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Place(shown, line).error(f"character {error.character!r} may not stand in a file; take it out") from None
    except RecursionError:
        raise Place(shown, 1).error("blocks are nested too deeply") from None
    if node is None:
        raise Place(shown, 1).error(f"is empty; {needs}")
    return Value(node, Place(shown, 1))


def _malformed(error: yaml.MarkedYAMLError, shown: str) -> TrunklineError:
    mark = error.problem_mark or error.context_mark
    said = error.problem or error.context or "something is wrong"
    if "'\\t'" in said:
        said = "a tab stands where YAML allows spaces only"
    elif said == "but found another document":
        said = "a file has one document; take the line --- out"
    elif said == "mapping values are not allowed here":
        said = "a colon stands where no name is expected; put the value in quotes, or check the indentation"
    return Place(shown, mark.line + 1 if mark else 1).error(f"this is not YAML: {said}")
