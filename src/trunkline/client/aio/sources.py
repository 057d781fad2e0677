"""Tables of the application's that are an outbox: their rows are published by the transactions that insert them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from psycopg.errors import Diagnostic

from trunkline.client import protocol
from trunkline.client.aio.connection import open_connection
from trunkline.client.aio.server import Server
from trunkline.engine.checks import check_seconds, check_topic_name
from trunkline.errors import DeadlineExceeded, InvalidArgument, NotFound, OutcomeUnknown, ServerError, Unavailable
from trunkline.records import OutboxSource
from trunkline.settings import OutboxColumns

NAME_MAX = 1_000
"""A name with its schema, in quotes, is a seventh of that."""


class Sources:
    """The attached tables of one database."""

    def __init__(self, url: str, server: Server) -> None:
        self._url = url
        self._server = server

    async def attach(
        self,
        table: str,
        topic: str,
        columns: OutboxColumns,
        *,
        order_by: str | None,
        deadline_s: float,
        progress: Callable[[int], None] | None,
    ) -> int:
        """How many rows were there already and have been published. On a connection of its own: it may take long."""
        _check_table(table)
        check_topic_name(topic)
        if not isinstance(columns, OutboxColumns):
            raise InvalidArgument(f"columns must be OutboxColumns, not {type(columns).__name__}")
        if order_by is not None and (not isinstance(order_by, str) or not order_by or "\0" in order_by):
            raise InvalidArgument(f"order_by must be the name of a column, not {order_by!r}")
        deadline = monotonic() + check_seconds("deadline_s", deadline_s)
        self._server.pool.check_usable()
        connection = await open_connection(self._url, self._server.settings, deadline)
        try:
            if progress is not None:
                connection.add_notice_handler(_counter(progress))
            try:
                ((table_id,),) = await connection.call(protocol.OUTBOX_TABLE, [table])
            except ServerError as error:
                raise _no_table(table) from error
            if table_id is None:
                raise _no_table(table)
            connection.deadline = deadline
            parameters = [table_id, topic, columns.payload, columns.key, columns.group_key, columns.headers, order_by]
            try:
                ((rows,),) = await connection.call(protocol.OUTBOX_ATTACH, parameters)
            except (Unavailable, DeadlineExceeded) as error:
                raise OutcomeUnknown(f"it may or may not have been done; look at outbox_sources(): {error}") from error
        finally:
            await connection.close()
        return int(rows)

    async def detach(self, table: str) -> str:
        _check_table(table)
        try:
            ((topic,),) = await self._server.change(protocol.OUTBOX_DETACH, [table, table])
        except ServerError as error:
            raise _no_table(table) from error
        return str(topic)

    async def all(self) -> list[OutboxSource]:
        return [OutboxSource(*row) for row in await self._server.ask(protocol.OUTBOX_SOURCES)]


def _check_table(table: object) -> None:
    if not isinstance(table, str) or not table.strip() or "\0" in table or len(table) > NAME_MAX:
        raise InvalidArgument(f"a table is named as in SQL, like public.outbox_message_t, not {table!r}")


def _no_table(table: str) -> NotFound:
    return NotFound(
        f"there is no table {table}; name it as SQL does, with its schema, and in double quotes where it has capitals"
    )


def _counter(progress: Callable[[int], None]) -> Callable[[Diagnostic], None]:
    """Hands on how many rows the server says it has done: the detail of its notices is that number alone."""

    def hear(said: Diagnostic) -> None:
        if said.message_detail is not None and said.message_detail.isdecimal():
            progress(int(said.message_detail))

    return hear
