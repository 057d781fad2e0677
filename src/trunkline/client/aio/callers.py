"""How a record gets into a transaction of the caller's: through psycopg, SQLAlchemy or Django, as its owner uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol
from weakref import WeakSet

import psycopg
from psycopg.rows import tuple_row

from trunkline.client import protocol
from trunkline.client.aio.shim import IS_ASYNC
from trunkline.client.failures import translate
from trunkline.client.foreign import (
    ALONE,
    check_django,
    check_psycopg,
    library_of,
    sqlalchemy_parts,
    translate_foreign,
)
from trunkline.errors import InvalidArgument

Values = Sequence[Any]
Do = Callable[[], None]


class Caller(Protocol):
    """Somebody's connection, as the outbox uses it."""

    async def put(self, values: Values) -> tuple[Any, ...]:
        """Call ``outbox_put`` in the transaction."""

    def on_commit(self, do: Do) -> None:
        """Have something done when the transaction has committed, where there is somebody who says so."""


def caller_of(conn: Any) -> Caller:
    """The connection as one of those that can be published on; InvalidArgument where it is none."""
    library = library_of(conn, is_async=IS_ASYNC)
    kinds: dict[str, Callable[[Any], Caller]] = {
        "psycopg": PsycopgCaller,
        "SQLAlchemy": SqlalchemyCaller,
        "Django": DjangoCaller,
    }
    return kinds[library](conn)


class PsycopgCaller:
    """A connection of psycopg. Nobody says when it has committed."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn

    async def put(self, values: Values) -> tuple[Any, ...]:
        check_psycopg(self._conn)
        try:
            async with self._conn.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(protocol.OUTBOX_PUT, values)
                (row,) = await cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error
        return row

    def on_commit(self, do: Do) -> None:
        pass


class SqlalchemyCaller:
    """A session or a connection of SQLAlchemy 2, with any driver. Only a session says when it has committed."""

    _listening: ClassVar[WeakSet[Any]] = WeakSet()

    def __init__(self, conn: Any) -> None:
        self._conn, self._session = sqlalchemy_parts(conn)

    async def put(self, values: Values) -> tuple[Any, ...]:
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        named = dict(zip(protocol.OUTBOX_PUT_NAMES, values, strict=True))
        try:
            if await self._is_autocommit():
                raise InvalidArgument(ALONE)
            result = await self._conn.execute(text(protocol.OUTBOX_PUT_NAMED), named)
            (row,) = result.fetchall()
        except DBAPIError as error:
            raise translate_foreign(error) from error
        except SQLAlchemyError as error:
            raise InvalidArgument(f"SQLAlchemy refuses: {error}") from error
        return tuple(row)

    async def _is_autocommit(self) -> bool:
        connection = self._conn if self._session is None else await self._conn.connection()
        if True:  # ASYNC
            connection = connection.sync_connection
        return bool(getattr(connection.connection.driver_connection, "autocommit", False))

    def on_commit(self, do: Do) -> None:
        if self._session is not None and self._session not in self._listening:
            from sqlalchemy import event

            self._listening.add(self._session)
            event.listen(self._session, "after_commit", lambda _: do())


class DjangoCaller:
    """A connection of Django's, as ``django.db.connection``: it knows no async."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def put(self, values: Values) -> tuple[Any, ...]:
        from django.db import Error

        check_django(self._conn)
        try:
            with self._conn.cursor() as cursor:
                cursor.execute(protocol.OUTBOX_PUT, values)
                (row,) = cursor.fetchall()
        except Error as error:
            raise translate_foreign(error) from error
        return tuple(row)

    def on_commit(self, do: Do) -> None:
        self._conn.on_commit(do)
