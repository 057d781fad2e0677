"""`trunkline consume`, `tail` and `get`: reading without a group. Nothing is remembered, nothing is taken, except by
`consume` with --ack."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from trunkline.cli.output import on_terminal, stdout, write_json
from trunkline.cli.server import connect, url_option
from trunkline.cli.values import PARTITION
from trunkline.errors import InvalidArgument, NotFound, OffsetOutOfRange

if TYPE_CHECKING:
    from trunkline import Client, PartitionRange, Record
    from trunkline.cli.follow import Follower
    from trunkline.cli.record import Show
    from trunkline.cli.taking import Taking
    from trunkline.engine.offsets import Bound, Span

TAIL_MAX = 10_000


def _output_options(command: click.decorators.FC) -> click.decorators.FC:
    command = click.option("--json", "as_json", is_flag=True, help="JSON lines, on a terminal too.")(command)
    return click.option(
        "-f",
        "--format",
        "layout",
        help=r"How a record is written: %t topic %p partition %o offset %k key %v value %h headers %T time, "
        r"%% and \n \t \r \0 \\ \xNN. Bytes are written as they are; no newline is added.",
    )(command)


def _partition_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "-p", "--partition", "partitions", type=PARTITION, multiple=True, help="Repeatable. Default: all."
    )(command)


@click.command()
@click.argument("topic")
@_partition_option
@click.option("-o", "--offset", "span", default="start", show_default=True, help="Where to begin, and to end.")
@click.option("-n", "--count", type=click.IntRange(min=0), help="End after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="End at the end that the log has now.")
@click.option("-g", "--group", help="Read as a member of this group. With --ack.")
@click.option("-q", "--queue", help="Take from this queue of the topic. With --ack.")
@click.option("--ack", is_flag=True, help="Commit, or acknowledge, what was written.")
@_output_options
@url_option
@click.pass_context
def consume(  # noqa: PLR0913 - by name, as click hands them in
    context: click.Context,
    topic: str,
    partitions: tuple[int, ...],
    span: str,
    count: int | None,
    group: str | None,
    queue: str | None,
    layout: str | None,
    *,
    exit_at_end: bool,
    ack: bool,
    as_json: bool,
) -> None:
    """Read records, without a group.

    Nothing is remembered, and nobody is disturbed. With --ack, and a group or a queue that exists, records are taken
    from it: each is committed, or acknowledged, once it was written. -e then ends when there is nothing to take.

    Without -e, -n or an end it follows the log until Ctrl-C, also when piped. On a terminal it writes a line a
    record; piped, or with --json, JSON lines: bytes that are not UTF-8 are in base64, as payload_base64,
    key_base64 and value_base64.

    \b
    -o start          from the first record that is still there
    -o end            only what comes from now on
    -o 42             from offset 42 on; outside the log it is an error
    -o +5             from five records after the start on
    -o -10            the last ten records of each partition, and on
    -o 42:90          offsets 42 to 89; waits for them if they are still to come
    -o :90  42:end    from the start; to the end that the log has now
    -o @-1h           what was appended in the last hour, and on (ms s m h d w)
    -o @2026-01-01T00:00:00Z   from a time on; also a day, or Unix seconds or ms
    -o @-1h:-5m       between two times
    -o @-1h:end       from a time to the end that the log has now
    """
    from trunkline.cli.taking import Taking
    from trunkline.engine.offsets import parse_span

    show = _show(layout, as_json=as_json)
    _check_taking(context, group, queue, ack=ack)
    if ack:
        _take(topic, group, queue, Taking(show, count, exit_at_end=exit_at_end))
        return
    wanted = parse_span(span, now=datetime.now(UTC))
    with connect() as tl:
        follower = _follower(tl, topic, wanted, partitions, exit_at_end=exit_at_end)
        _write(follower.records(count), show)


def _check_taking(context: click.Context, group: str | None, queue: str | None, *, ack: bool) -> None:
    if group is not None and queue is not None:
        raise click.UsageError("--group and --queue exclude each other")
    if ack and group is None and queue is None:
        raise click.UsageError("--ack is for --group and --queue; without them nothing is remembered")
    if not ack and (group is not None or queue is not None):
        raise click.UsageError("with a group or a queue records are taken: add --ack, or leave it out to only look")
    for name, option in (("span", "--offset"), ("partitions", "--partition")):
        if ack and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} is not for --ack: where a group or a queue stands is where it goes on")


def _take(topic: str, group: str | None, queue: str | None, taking: Taking) -> None:
    with connect() as tl:
        if group is not None:
            taking.from_group(tl, topic, group)
        elif queue is not None:
            taking.from_queue(tl, topic, queue)


@click.command()
@click.argument("topic")
@click.option("-n", "--count", type=click.IntRange(0, TAIL_MAX), default=10, show_default=True)
@_partition_option
@_output_options
@url_option
def tail(topic: str, count: int, partitions: tuple[int, ...], layout: str | None, *, as_json: bool) -> None:
    """Show the newest records, then follow the topic.

    All partitions together, by time. Ctrl-C ends it.
    """
    from trunkline.cli.follow import Follower

    show = _show(layout, as_json=as_json)
    with connect() as tl:
        logs = _logs(tl, topic, partitions)
        _write([_newest(tl, topic, logs, count)], show)
        follower = Follower(
            tl,
            topic,
            next_offsets={log.partition: log.end for log in logs},
            stops={log.partition: None for log in logs},
            all_partitions=not partitions,
        )
        _write(follower.records(), show)


@click.command()
@click.argument("topic")
@click.argument("position", metavar="PARTITION:OFFSET")
@click.option("--raw", is_flag=True, help="Write the payload's bytes, exactly, and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="JSON, on a terminal too.")
@url_option
def get(topic: str, position: str, *, raw: bool, as_json: bool) -> None:
    """Show one record. Piped, or with --json, as JSON."""
    from trunkline.cli import record as showing

    partition, offset = _parse_position(position)
    with connect() as tl:
        found = tl.read(topic, partition=partition, offset=offset, max_records=1)
    if not found:
        raise OffsetOutOfRange(f"the log of partition {partition} ends at {offset}: there is no such record yet")
    if raw:
        stdout().write(found[0].payload)
    elif as_json or not on_terminal():
        write_json(showing.record_fields(found[0]))
    else:
        click.echo(showing.page(found[0]), nl=False)


def _parse_position(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9}):(\d{1,18})", text, re.ASCII)
    if not found:
        raise InvalidArgument(f"not a position: {text!r}; write PARTITION:OFFSET, for example 0:42")
    return int(found[1]), int(found[2])


def _show(layout: str | None, *, as_json: bool) -> Show:
    from trunkline.cli import record as showing
    from trunkline.cli.escapes import compile_format

    if layout is not None and as_json:
        raise click.UsageError("--format and --json exclude each other")
    if layout is not None:
        return compile_format(layout)
    return showing.json_line() if as_json or not on_terminal() else showing.plain_line


def _write(found: Iterable[list[Record]], show: Show) -> None:
    out = stdout()
    for records in found:
        for record in records:
            out.write(show(record))
        out.flush()


def _logs(tl: Client, topic: str, partitions: tuple[int, ...]) -> list[PartitionRange]:
    logs = tl.offsets(topic)
    missing = set(partitions) - {log.partition for log in logs}
    if missing:
        raise NotFound(f"topic {topic} has no partition {min(missing)}; its partitions are 0 to {len(logs) - 1}")
    return [log for log in logs if not partitions or log.partition in partitions]


def _follower(tl: Client, topic: str, span: Span, partitions: tuple[int, ...], *, exit_at_end: bool) -> Follower:
    from trunkline.cli.follow import Follower
    from trunkline.engine.offsets import offset_of, stop_of

    next_offsets: dict[int, int] = {}
    stops: dict[int, int | None] = {}
    for log in _logs(tl, topic, partitions):
        first = offset_of(span.first, log, at_time=_at_time(tl, topic, log, span.first))
        stop = None
        if span.stop is not None:
            stop = stop_of(span.stop, log, at_time=_at_time(tl, topic, log, span.stop))
        if exit_at_end:
            stop = log.end if stop is None else min(stop, log.end)
        next_offsets[log.partition], stops[log.partition] = first, stop
    follow_new = not partitions and span.stop is None and not exit_at_end
    return Follower(tl, topic, next_offsets=next_offsets, stops=stops, all_partitions=follow_new)


def _at_time(tl: Client, topic: str, log: PartitionRange, bound: Bound) -> int | None:
    if bound.time is None:
        return None
    return tl.offset_at(topic, log.partition, bound.time)


def _newest(tl: Client, topic: str, logs: list[PartitionRange], count: int) -> list[Record]:
    """The newest records of all partitions together, oldest first."""
    newest: list[Record] = []
    for log in logs:
        at = max(log.start, log.end - count)
        while at < log.end:
            records = tl.read(topic, partition=log.partition, offset=at, max_records=log.end - at)
            newest += records
            at += len(records)
        # Cut at every partition: never more than twice what is asked for is in memory.
        newest = sorted(newest, key=lambda record: (record.append_time, record.partition, record.offset))
        newest = newest[max(0, len(newest) - count) :]
    return newest
