"""How a record gets into a transaction of the caller's: through psycopg, SQLAlchemy or Django, as its owner uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import psycopg
from psycopg.rows import tuple_row

from trunkline.client.aio.shim import IS_ASYNC
from trunkline.client.failures import translate
from trunkline.client.foreign import (
    ALONE,
    FAILED,
    GONE,
    Do,
    after_commit,
    check_django,
    check_psycopg,
    django_wrapper,
    library_of,
    sqlalchemy_parts,
    translate_foreign,
)
from trunkline.client.protocol import OutboxCall
from trunkline.errors import Closed, InvalidArgument, Unavailable

Values = Sequence[Any]


class Caller(Protocol):
    """Somebody's connection, as the outbox uses it."""

    key: Any
    """What the connection is known by: the same thing however it was given."""

    async def put(self, call: OutboxCall, values: Values) -> Sequence[int]:
        """Call the outbox in the transaction; its answer."""

    def on_commit(self, do: Do) -> None:
        """Have something done when the transaction has committed, where there is somebody who says so. What is asked
        for again before that is done once."""


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
        self.key = self._conn = conn

    async def put(self, call: OutboxCall, values: Values) -> Sequence[int]:
        check_psycopg(self._conn)
        try:
            async with self._conn.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(call.binary, values)
                ((answer,),) = await cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error
        return list(answer)

    def on_commit(self, do: Do) -> None:
        pass


class SqlalchemyCaller:
    """A session or a connection of SQLAlchemy 2, with any driver. Only a session says when it has committed."""

    def __init__(self, conn: Any) -> None:
        self._conn, self._session = sqlalchemy_parts(conn)
        self.key: Any = self._conn if self._session is None else self._session

    async def put(self, call: OutboxCall, values: Values) -> Sequence[int]:
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError, PendingRollbackError, ResourceClosedError, SQLAlchemyError

        named = dict(zip(call.names, values, strict=True))
        try:
            connection = self._conn if self._session is None else await self._conn.connection()
            _check_sqlalchemy(connection)
            result = await connection.execute(text(call.by_name), named)
            ((answer,),) = result.fetchall()
        except DBAPIError as error:
            raise translate_foreign(error, "SQLAlchemy") from error
        except PendingRollbackError as error:
            raise InvalidArgument(FAILED) from error
        except ResourceClosedError as error:
            raise Closed(GONE) from error
        except SQLAlchemyError as error:
            raise InvalidArgument(f"SQLAlchemy refuses: {error}") from error
        except OSError as error:
            # asyncpg has no error of its own for a server that is not there.
            raise Unavailable(f"{error}; is the server running, and reachable from here?") from error
        return list(answer)

    def on_commit(self, do: Do) -> None:
        if self._session is not None:
            after_commit(self._session, do)


def _check_sqlalchemy(connection: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise InvalidArgument(f"conn is a connection to {connection.dialect.name}, not to PostgreSQL")
    if True:  # ASYNC
        connection = connection.sync_connection
    if connection.closed:
        raise Closed(GONE)
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise InvalidArgument(ALONE)


class DjangoCaller:
    """A connection of Django's, as ``django.db.connection``: it knows no async."""

    def __init__(self, conn: Any) -> None:
        self.key = self._conn = django_wrapper(conn)

    async def put(self, call: OutboxCall, values: Values) -> Sequence[int]:
        from django.db import Error

        check_django(self._conn)
        try:
            with self._conn.cursor() as cursor:
                cursor.execute(call.by_place, values)
                ((answer,),) = cursor.fetchall()
        except Error as error:
            raise translate_foreign(error, "Django") from error
        return list(answer)

    def on_commit(self, do: Do) -> None:
        # Django refuses it where the application begins and ends transactions by hand. What a savepoint took back when
        # it was rolled back is not in the list any more.
        if self._conn.in_atomic_block and not any(do in hook for hook in self._conn.run_on_commit):
            self._conn.on_commit(do)
