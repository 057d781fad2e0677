"""Turn the text of an async source into the text of its sync twin.

Token by token, so that strings and names are never confused. What it does and what it refuses is told in
tools/twins.py, which does it to files.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

# async name -> sync name. Only names that differ; `connect`, `read`, `publish` are the same in both worlds.
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aclosing": "closing",
    "aenter_context": "enter_context",
    "aenter": "enter",
    "aiter": "iter",
    "anext": "next",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
    "enter_async_context": "enter_context",
    "push_async_callback": "callback",
    "push_async_exit": "push",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncClient": "Client",
    "AsyncClientCursor": "ClientCursor",
    "AsyncConnection": "Connection",
    "AsyncConnectionPool": "ConnectionPool",
    "AsyncConformance": "Conformance",
    "AsyncConsumer": "Consumer",
    "AsyncGroupSubscription": "GroupSubscription",
    "AsyncInbox": "Inbox",
    "AsyncContextManager": "ContextManager",
    "AsyncCopy": "Copy",
    "AsyncCursor": "Cursor",
    "AsyncDelivery": "Delivery",
    "AsyncSettler": "Settler",
    "AsyncDriverOpener": "DriverOpener",
    "AsyncExitStack": "ExitStack",
    "AsyncGenerator": "Generator",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "AsyncMemoryOpener": "MemoryOpener",
    "AsyncMemorySubscription": "MemorySubscription",
    "AsyncMemoryTopic": "MemoryTopic",
    "AsyncMock": "Mock",
    "AsyncPipeline": "Pipeline",
    "AsyncPostgresOpener": "PostgresOpener",
    "AsyncPostgresTopic": "PostgresTopic",
    "AsyncQueue": "Queue",
    "AsyncQueueSubscription": "QueueSubscription",
    "AsyncRawCursor": "RawCursor",
    "AsyncRawServerCursor": "RawServerCursor",
    "AsyncReceivedMessage": "ReceivedMessage",
    "AsyncServerCursor": "ServerCursor",
    "AsyncSubscription": "Subscription",
    "AsyncSubscriptionDriver": "SubscriptionDriver",
    "AsyncTopic": "Topic",
    "AsyncTopicDriver": "TopicDriver",
    "AsyncTransaction": "Transaction",
    "StopAsyncIteration": "StopIteration",
}

# async module -> sync module, also as a prefix of a dotted name. The longest that fits wins.
MODULES = {
    "trunkline.client.aio": "trunkline.client.sync",
    "trunkline.portable.aio": "trunkline.portable.sync",
    "trunkline.drivers.memory.aio": "trunkline.drivers.memory.sync",
    "trunkline.drivers.postgres.aio": "trunkline.drivers.postgres.sync",
    "trunkline.testing.aio": "trunkline.testing.sync",
    "trunkline.aio": "trunkline",
    "tests.aio": "tests.sync",
}

# Wrappers that vanish: `Awaitable[T]` -> `T`, and of `Coroutine[A, B, T]` the last.
WRAPPERS = {"Awaitable", "Coroutine"}

ASYNC_MARK = "# ASYNC"
LOOKS_ASYNC = re.compile(
    r"Async[A-Z]\w*|\w+Async|__a(enter|exit|iter|next)__|asyncio|aio|async|await|Awaitable|Coroutine"
)


class TwinError(Exception):
    """A source that the converter would get wrong; the message has file, line and what to write instead."""


# -- text: a source and the edits that make a twin of it --


@dataclass(frozen=True, order=True)
class Edit:
    """Replace text[start:end] by `text`."""

    start: int
    end: int
    text: str = ""


class Source:
    """The text of one file with its tokens, its tree, and positions as plain indexes."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.tree = ast.parse(text, name)
        self._line_starts = [0]
        for line in io.StringIO(text):  # not splitlines(), which knows more line ends than Python's grammar
            self._line_starts.append(self._line_starts[-1] + len(line))
        self.tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))

    def index(self, position: tuple[int, int]) -> int:
        line, column = position
        return self._line_starts[line - 1] + column

    def line_start(self, line: int) -> int:
        return self._line_starts[line - 1]

    def line(self, line: int) -> str:
        return self.text[self.line_start(line) : self.line_start(line + 1)]

    def edited(self, edits: list[Edit]) -> str:
        """The text with all edits; of two that overlap the outer one holds."""
        parts: list[str] = []
        at = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
            if edit.start < at:
                continue
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.text[at:]])

    def refuse(self, line: int, reason: str) -> TwinError:
        return TwinError(f"{self.name}:{line}: {reason}")


# -- the special form --


def keep_other_half(text: str, name: str) -> str:
    """Replace each `if True:  # ASYNC` by its else, dedented; innermost forms come out in later rounds."""
    while True:
        source = Source(text, name)
        found = next(_special_forms(source), None)
        if found is None:
            return text
        text = _without_async_half(source, found)


def _special_forms(source: Source) -> Iterator[ast.If]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If) and source.line(node.lineno).rstrip().endswith(ASYNC_MARK):
            if not (isinstance(node.test, ast.Constant) and node.test.value is True):
                raise source.refuse(node.lineno, f"{ASYNC_MARK} stands only after `if True:`")
            yield node


def _without_async_half(source: Source, node: ast.If) -> str:
    end = source.line_start((node.end_lineno or node.lineno) + 1)
    start = source.line_start(node.lineno)
    if not node.orelse:
        replacement = " " * node.col_offset + "pass\n" if _is_alone(source.tree, node) else ""
        return source.edited([Edit(start, end, replacement)])
    else_line = _else_line(source, node)
    first = node.orelse[0]
    inside_strings = _string_continuations(source)
    lines = []
    for number in range(else_line + 1, (node.end_lineno or else_line) + 1):
        line = source.line(number)
        lines.append(line if number in inside_strings else _dedented(line, first.col_offset - node.col_offset))
    return source.edited([Edit(start, end, "".join(lines))])


def _else_line(source: Source, node: ast.If) -> int:
    for number in range(node.body[-1].end_lineno or node.lineno, node.orelse[0].lineno + 1):
        words = source.line(number).split("#")[0].rstrip()
        if words == " " * node.col_offset + "else:":
            return number
        if words.startswith(" " * node.col_offset + "elif "):
            raise source.refuse(number, f"no elif in the {ASYNC_MARK} form; nest an if inside else")
    raise source.refuse(node.lineno, f"`else:` of the {ASYNC_MARK} form must stand alone on its line")


def _is_alone(tree: ast.Module, node: ast.If) -> bool:
    for parent in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and node in block:
                return len(block) == 1 and parent is not tree
    return False


def _string_continuations(source: Source) -> set[int]:
    lines: set[int] = set()
    for token in source.tokens:
        if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.DEDENT, tokenize.INDENT):
            lines.update(range(token.start[0] + 1, token.end[0] + 1))
    return lines


def _dedented(line: str, columns: int) -> str:
    blank = len(line) - len(line.lstrip(" "))
    return line[min(columns, blank) :]


# -- tokens --


def convert(text: str, name: str = "<source>") -> str:
    """The twin's text, before imports are sorted and lines are formatted."""
    text = keep_other_half(text, name)
    source = Source(text, name)
    _refuse_fstrings(source)
    docstrings = _docstring_starts(source.tree)
    edits: list[Edit] = []
    for at, token in _tokens_outside_fstrings(source.tokens):
        start, end = source.index(token.start), source.index(token.end)
        if token.type == tokenize.NAME:
            edits += _name_edits(source, at)
        elif token.type == tokenize.COMMENT:
            edits.append(Edit(start, end, prose(token.string)))
        elif token.type == tokenize.STRING:
            words = prose if token.start in docstrings else dotted_string
            edits.append(Edit(start, end, words(token.string)))
    return source.edited(edits)


def _tokens_outside_fstrings(tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[int, tokenize.TokenInfo]]:
    depth = 0
    for at, token in enumerate(tokens):
        kind = tokenize.tok_name[token.type]
        depth += {"FSTRING_START": 1, "FSTRING_END": -1}.get(kind, 0)
        if depth == 0:
            yield at, token


def _name_edits(source: Source, at: int) -> list[Edit]:
    tokens = source.tokens
    token = tokens[at]
    start, end = source.index(token.start), source.index(token.end)
    if token.string in ("async", "await"):
        gone = Edit(start, source.index(tokens[at + 1].start))
        return [gone, *(_parentheses(source, at) if token.string == "await" else ())]
    if token.string in WRAPPERS and tokens[at + 1].string == "[":
        return _unwrapped(source, at)
    chain = _dotted_chain(tokens, at)
    module = _module_of(chain)
    if module is not None:
        last = tokens[at + 2 * module.count(".")]
        return [Edit(start, source.index(last.end), MODULES[module])]
    if token.string in NAMES:
        return [Edit(start, end, NAMES[token.string])]
    return []


def _dotted_chain(tokens: list[tokenize.TokenInfo], at: int) -> str:
    """`a.b.c` from the name at `at`, or nothing when the name itself follows a dot."""
    if at and tokens[at - 1].string == ".":
        return ""
    names = [tokens[at].string]
    while tokens[at + 1].string == "." and tokens[at + 2].type == tokenize.NAME:
        at += 2
        names.append(tokens[at].string)
    return ".".join(names)


def _module_of(chain: str) -> str | None:
    fitting = (module for module in MODULES if f"{chain}.".startswith(f"{module}."))
    return max(fitting, key=len, default=None)


def _parentheses(source: Source, at: int) -> list[Edit]:
    """The pair around `(await x(...))`, when nothing else stands inside and it is not a call's own pair."""
    tokens = source.tokens
    opening = tokens[at - 1]
    if opening.string != "(" or _ends_operand(tokens[at - 2]):
        return []
    close = _after_primary(tokens, at + 1)
    if tokens[close].string != ")" or tokens[close].start[0] != opening.start[0]:
        return []
    return [
        Edit(source.index(opening.start), source.index(tokens[at + 1].start)),
        Edit(source.index(tokens[close].start), source.index(tokens[close].end)),
    ]


def _after_primary(tokens: list[tokenize.TokenInfo], at: int) -> int:
    """The index after `name.name(...)[...]`; other operands (`x or y`, literals) end at once."""
    if tokens[at].type != tokenize.NAME or keyword.iskeyword(tokens[at].string):
        return at
    at += 1
    while tokens[at].string in (".", "(", "["):
        at = at + 2 if tokens[at].string == "." else _matching(tokens, at) + 1
    return at


def _ends_operand(token: tokenize.TokenInfo) -> bool:
    if token.type == tokenize.NAME:
        return not keyword.iskeyword(token.string)
    return token.string in (")", "]", "}")


def _matching(tokens: list[tokenize.TokenInfo], at: int) -> int:
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    while True:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(tokens[at].string, 0)
        if depth == 0:
            return at
        at += 1


def _unwrapped(source: Source, at: int) -> list[Edit]:
    """`Awaitable[T]` -> `T`, `Coroutine[A, B, T]` -> `T`; what stands in T is converted by its own tokens."""
    tokens = source.tokens
    close = _matching(tokens, at + 1)
    first = at + 2
    depth = 0
    for index in range(at + 2, close):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(tokens[index].string, 0)
        if tokens[index].string == "," and depth == 0 and tokens[index + 1].string != "]":
            first = index + 1
    return [
        Edit(source.index(tokens[at].start), source.index(tokens[first].start)),
        Edit(source.index(tokens[close].start), source.index(tokens[close].end)),
    ]


# -- strings and comments --


WORD = re.compile(r"\b(" + "|".join(sorted(NAMES, key=len, reverse=True)) + r")\b")
MODULE = re.compile(
    r"(?<![\w.])(" + "|".join(re.escape(name) for name in sorted(MODULES, key=len, reverse=True)) + r")(?!\w)"
)
AWAIT_CALL = re.compile(r"\bawait (?=[A-Za-z_][\w.]*\()")
ASYNC_STATEMENT = re.compile(r"\basync (?=(with|for|def)\b)")
DOTTED_STRING = re.compile(r"""["'][A-Za-z_]\w*(\.[A-Za-z_]\w*)*["']""")


def prose(text: str) -> str:
    """A docstring or comment for the twin: names and code-like waits change, sentences do not."""
    return names_in(ASYNC_STATEMENT.sub("", AWAIT_CALL.sub("", text)))


def names_in(text: str) -> str:
    text = MODULE.sub(lambda match: MODULES[match[0]], text)
    return WORD.sub(lambda match: NAMES[match[0]], text)


def dotted_string(text: str) -> str:
    """A string that is a name or a path of names, as in `__all__`; any other string stays as it is."""
    return names_in(text) if DOTTED_STRING.fullmatch(text) else text


def _docstring_starts(tree: ast.Module) -> set[tuple[int, int]]:
    starts = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                starts.add((statement.value.lineno, statement.value.col_offset))
    return starts


def _refuse_fstrings(source: Source) -> None:
    # Python 3.11 has an f-string as one token, 3.12 as many: what is inside is left alone by both.
    for string in ast.walk(source.tree):
        if isinstance(string, ast.JoinedStr):
            for word in filter(None, map(_async_word, ast.walk(string))):
                raise source.refuse(string.lineno, f"no {word} inside an f-string; give the value a name first")


def _async_word(node: ast.AST) -> str | None:
    if isinstance(node, ast.Await):
        return "await"
    if isinstance(node, ast.comprehension) and node.is_async:
        return "async for"
    word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return word if word in NAMES or word == "aio" else None


def refuse_leftovers(text: str, source: str) -> None:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and LOOKS_ASYNC.fullmatch(token.string):
            raise TwinError(
                f"{source}: the twin would still say `{token.string}` in `{token.line.strip()}`; add the "
                "name to NAMES in tools/async_to_sync.py, put the difference into shim.py, or use "
                f"`if True:  {ASYNC_MARK}`"
            )
