"""Groups as an administrator sees them: created, described, moved, deleted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from trunkline.client import protocol
from trunkline.client.aio.server import Server
from trunkline.engine.checks import (
    INT4_MAX,
    check_group_name,
    check_key,
    check_start,
    check_time,
    check_topic_name,
    check_topic_names,
    check_whole,
)
from trunkline.errors import InvalidArgument
from trunkline.records import (
    BlockedKey,
    CursorMove,
    GroupDescription,
    GroupFailures,
    GroupMember,
    GroupPartition,
    GroupSummary,
    Key,
)


class Groups:
    """The groups of one database."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def create(self, name: str, topics: str | Iterable[str], start: str | int | datetime) -> None:
        parameters = [check_group_name(name), check_topic_names(topics), *check_start(start)]
        await self._server.change(protocol.GROUP_CREATE, parameters)

    async def all(self) -> list[GroupSummary]:
        return [GroupSummary(*row) for row in await self._server.ask(protocol.GROUP_LIST)]

    async def describe(self, name: str) -> GroupDescription:
        check_group_name(name)
        partitions = [GroupPartition(*row) for row in await self._server.ask(protocol.GROUP_DESCRIBE, [name])]
        members = [GroupMember(*row) for row in await self._server.ask(protocol.MEMBER_LIST, [name])]
        (failures,) = await self._server.ask(protocol.FAILURE_DESCRIBE, [name])
        return GroupDescription(name, partitions, members, GroupFailures(*failures))

    async def blocked(self, name: str) -> list[BlockedKey]:
        rows = await self._server.ask(protocol.PARKED_LIST, [check_group_name(name)])
        return [BlockedKey(*row) for row in rows]

    async def redrive(
        self, name: str, key: Key, group_key: Key, *, discard_failed: bool, execute: bool
    ) -> list[BlockedKey]:
        for word, value in (("discard_failed", discard_failed), ("execute", execute)):
            if not isinstance(value, bool):
                raise InvalidArgument(f"{word} must be True or False, not {value!r}")
        parameters = [check_group_name(name), check_key(key), check_key(group_key), discard_failed, execute]
        # What is due already stays so: asked for twice is asked for once.
        call = self._server.change if discard_failed else self._server.repeat
        return [BlockedKey(*row) for row in await call(protocol.PARKED_REDRIVE, parameters)]

    async def seek(
        self,
        name: str,
        topic: str,
        to: int | str | datetime | None,
        *,
        like_group: str | None,
        partition: int | None,
        execute: bool,
    ) -> list[CursorMove]:
        check_group_name(name)
        check_topic_name(topic)
        if partition is not None:
            check_whole("partition", partition, most=INT4_MAX)
        if not isinstance(execute, bool):
            raise InvalidArgument(f"execute must be True or False, not {execute!r}")
        parameters = [name, topic, partition, *_target(to, like_group), execute]
        call = self._server.change if execute else self._server.ask
        return [CursorMove(topic, *row) for row in await call(protocol.GROUP_SEEK, parameters)]

    async def delete(self, name: str, *, cut_off: bool) -> None:
        if not isinstance(cut_off, bool):
            raise InvalidArgument(f"cut_off must be True or False, not {cut_off!r}")
        await self._server.change(protocol.GROUP_DELETE, [check_group_name(name), cut_off])


def _target(
    to: int | str | datetime | None, like_group: str | None
) -> tuple[str, int | None, datetime | None, str | None]:
    """Where a seek leads, as the server takes it."""
    if (to is None) == (like_group is None):
        raise InvalidArgument("say where to: an offset, a time, 'start', 'end', or like_group")
    if like_group is not None:
        return "group", None, None, check_group_name(like_group)
    if isinstance(to, str):
        if to not in ("start", "end"):
            raise InvalidArgument(f"to must be 'start', 'end', an offset or a datetime, not {to!r}")
        return to, None, None, None
    if isinstance(to, datetime):
        return "time", None, check_time("to", to), None
    return "offset", check_whole("to", to, least=1), None, None
