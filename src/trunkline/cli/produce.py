"""`trunkline produce`: publish records from arguments, standard input or a file."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from trunkline.cli.output import on_terminal, stdout, write_json
from trunkline.cli.server import connect, url_option
from trunkline.cli.values import pairs_option
from trunkline.errors import InvalidArgument, TooLarge, TrunklineError

if TYPE_CHECKING:
    from trunkline import Client, Message, Position, Topic

CHUNK_BYTES = 1024 * 1024
LINES_AT_ONCE = 1_000
PROGRESS_EVERY_S = 0.5
NOTICE_SIGNALS_MS = 500


@click.command()
@click.argument("topic")
@click.argument("payloads", metavar="[PAYLOAD]...", nargs=-1)
@click.option("-f", "--file", "source", type=click.File("rb"), help="Read records from a file; - is standard input.")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help=r"The key stands before it in each record; \t is a tab.")
@pairs_option("-H", "--header", "headers", help="A header of every record, repeatable.")
@click.option("-p", "--partition", type=click.IntRange(0, 1023), help="Where to. Default: by key, or in turn.")
@click.option("--whole", is_flag=True, help="The whole input is one record, whatever bytes it has.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print positions.")
@click.option("--json", "as_json", is_flag=True, help="Print positions as JSON, one object a line.")
@url_option
def produce(topic: str, payloads: tuple[str, ...], source: BinaryIO | None, **options: Any) -> None:
    """Publish records.

    Each PAYLOAD is one, else each line of standard input or of a file. A line is a record without its newline;
    an empty line is an empty record. A record is durable once its PARTITION:OFFSET is printed. If it fails
    midway, it says how many records are surely in the log.
    """
    wanted = Options(**options)
    _check_combination(payloads, source, wanted)
    shape = _Shape(wanted)
    with connect() as tl:
        known = tl.topic(topic)
        given = _given(payloads, source or sys.stdin.buffer, known, whole=wanted.whole)
        chunks = ([shape.message(payload) for payload in chunk] for chunk in given)
        _Publishing(tl, topic, wanted).run(chunks)


@dataclass(frozen=True)
class Options:
    """What the command was told about its records and its output."""

    key: str | None
    key_delimiter: str | None
    headers: list[tuple[str, str]]
    partition: int | None
    whole: bool
    quiet: bool
    as_json: bool


def _check_combination(payloads: tuple[str, ...], source: BinaryIO | None, wanted: Options) -> None:
    if payloads and (source is not None or wanted.whole):
        raise click.UsageError("give payloads as arguments, or read them with --file or --whole, not both")
    if wanted.key_delimiter is not None and (wanted.key is not None or wanted.whole):
        raise click.UsageError("--key-delimiter does not go with --key or --whole")
    if wanted.key_delimiter == "":
        raise click.UsageError("--key-delimiter must not be empty")


def _given(payloads: tuple[str, ...], source: BinaryIO, topic: Topic, *, whole: bool) -> Iterator[list[bytes]]:
    """Lists of payloads, each as many as are there to be published at once."""
    if payloads:
        # The bytes that the shell gave, whatever they are.
        yield [os.fsencode(payload) for payload in payloads]
    elif whole:
        yield [_whole(source, topic)]
    else:
        if source.isatty():
            click.echo("One record a line; Ctrl-D ends.", err=True)
        yield from read_lines(source, topic.record_bytes_max + topic.key_bytes_max)


def _whole(source: BinaryIO, topic: Topic) -> bytes:
    payload = source.read(topic.record_bytes_max + 1)
    if len(payload) > topic.record_bytes_max:
        raise TooLarge(
            f"the input is over record_bytes_max = {topic.record_bytes_max} of the topic; split it, or alter the topic"
        )
    return payload


def read_lines(source: BinaryIO, line_bytes_max: int) -> Iterator[list[bytes]]:
    """The lines of a stream as they come, without their newlines: what was there at one read, never waiting for
    more while a whole line is in hand. TooLarge for a line that passes the limit; memory is bounded by it."""
    rest: list[bytes] = []
    rest_bytes = 0
    for chunk in _chunks(source):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest, rest_bytes = [], 0
            for start in range(0, len(lines), LINES_AT_ONCE):
                yield lines[start : start + LINES_AT_ONCE]
        rest.append(last)
        rest_bytes += len(last)
        if rest_bytes > line_bytes_max:
            raise TooLarge(
                f"a line has more than {line_bytes_max} bytes, which no record of the topic may have; "
                "publish the input as one record with --whole, or split it"
            )
    if rest_bytes:
        yield [b"".join(rest)]


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    """What a stream has, as it comes, without waiting for more."""
    read = getattr(source, "read1", source.read)
    ready = _poll_of(source)
    while True:
        # A signal that comes just before a blocking read is noticed after it: Ctrl-C would wait for a line.
        while ready is not None and not ready.poll(NOTICE_SIGNALS_MS):
            pass
        chunk = read(CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _poll_of(source: BinaryIO) -> select.poll | None:
    try:
        descriptor = source.fileno()
    except OSError:  # a stream in memory, which never blocks
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll


class _Shape:
    """What every record of one command has in common."""

    def __init__(self, wanted: Options) -> None:
        from trunkline.cli.escapes import unescape

        self._key = None if wanted.key is None else os.fsencode(wanted.key)
        self._delimiter = None if wanted.key_delimiter is None else unescape(wanted.key_delimiter)
        self._headers = [(name, os.fsencode(value)) for name, value in wanted.headers]
        self._partition = wanted.partition
        self._seen = 0

    def message(self, payload: bytes) -> Message:
        from trunkline.records import Message

        self._seen += 1
        key = self._key
        if self._delimiter is not None:
            key, found, payload = payload.partition(self._delimiter)
            if not found:
                raise InvalidArgument(f"record {self._seen} has no key delimiter {self._delimiter!r}")
        return Message(payload, key=key, headers=self._headers, partition=self._partition)


class _Publishing:
    """Publishes what comes and says where it went."""

    def __init__(self, tl: Client, topic: str, wanted: Options) -> None:
        self._tl = tl
        self._topic = topic
        self._quiet = wanted.quiet
        self._as_json = wanted.as_json
        self._done = 0
        # Positions on the same terminal are progress enough.
        self._progress = sys.stderr.isatty() and (wanted.quiet or not on_terminal())
        self._shown_at = time.monotonic()

    def run(self, chunks: Iterable[list[Message]]) -> None:
        try:
            for messages in chunks:
                positions = self._tl.publish_many(self._topic, messages)
                self._done += len(positions)
                self._say(positions)
        except TrunklineError:
            if self._done:
                click.echo(f"at least the first {self._done:,} records are in the log", err=True)
            raise
        if not self._done and not self._quiet:
            click.echo("the input was empty: nothing was published", err=True)
        if self._progress and self._done:
            click.echo(f"\r{self._done:,} records", err=True)

    def _say(self, positions: list[Position]) -> None:
        if not self._quiet and self._as_json:
            for position in positions:
                write_json(position)
        elif not self._quiet:
            lines = (b"%d:%d\n" % (position.partition, position.offset) for position in positions)
            stdout().write(b"".join(lines))
        stdout().flush()
        if self._progress and time.monotonic() - self._shown_at > PROGRESS_EVERY_S:
            self._shown_at = time.monotonic()
            click.echo(f"\r{self._done:,} records", nl=False, err=True)
