"""Connections that belong to the caller: what kind they are of, and what their libraries say.

Nothing is imported for this that is not there: whoever brings a connection of a library has that library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import psycopg
from psycopg.pq import TransactionStatus

from trunkline.client.failures import translate, translate_state
from trunkline.errors import Closed, InvalidArgument, TrunklineError

Library = Literal["psycopg", "SQLAlchemy", "Django"]
Do = Callable[[], None]

ALONE = (
    "the connection commits every statement by itself (autocommit), so the record would not be part of a transaction: "
    "begin one, or publish without conn"
)
GONE = "the connection that was given as conn is closed"
FAILED = "the transaction has failed already, and will be rolled back: nothing can be published in it"

_WAITING = "trunkline_after_commit"
"""Where a session keeps what is to be done: its own place for what others want to remember."""


class CallersConnection(Protocol):
    """What may be given as ``conn``: all that these kinds of connections have in common."""

    @property
    def close(self) -> Callable[..., Any]: ...


def library_of(conn: object, *, is_async: bool) -> Library:
    """Whose connection it is; InvalidArgument where it is nobody's that we know, or one for the other client."""
    if isinstance(conn, psycopg.Connection | psycopg.AsyncConnection):
        found, suits_async = "psycopg", isinstance(conn, psycopg.AsyncConnection)
    else:
        modules = {kind.__module__.split(".")[0] for kind in type(conn).__mro__}
        if "sqlalchemy" in modules:
            found, suits_async = "SQLAlchemy", _suits_async(conn)
        elif "django" in modules:
            django_wrapper(conn)
            found, suits_async = "Django", False
        else:
            raise InvalidArgument(
                "conn must be a connection of psycopg, or a session or connection of SQLAlchemy or Django, not "
                f"{type(conn).__name__}; for other drivers call trunkline.outbox_publish in SQL"
            )
    if suits_async != is_async:
        other = "trunkline.aio" if suits_async else "trunkline"
        raise InvalidArgument(f"conn is a {type(conn).__name__} of {found}, which is for the client of `{other}`")
    return found  # type: ignore[return-value]


def _suits_async(conn: object) -> bool:
    from sqlalchemy.engine import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(conn, AsyncConnection | AsyncSession | async_scoped_session):
        return True
    if isinstance(conn, Connection | Session | scoped_session):
        return False
    raise InvalidArgument(f"conn must be a session or a connection of SQLAlchemy, not its {type(conn).__name__}")


def sqlalchemy_parts(conn: Any) -> tuple[Any, Any]:
    """A session or connection without the registry it may come from, and the session in it that tells of commits; that
    is None for a connection, which speaks of a commit before it is done."""
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    found = conn() if isinstance(conn, async_scoped_session | scoped_session) else conn
    session = found.sync_session if isinstance(found, AsyncSession) else found
    return found, session if isinstance(session, Session) else None


def after_commit(session: Any, do: Do) -> None:
    """Have something done once, when a session of SQLAlchemy has committed."""
    waiting = session.info.get(_WAITING)
    if waiting is None:
        from sqlalchemy import event

        waiting = session.info[_WAITING] = []
        event.listen(session, "after_commit", _do_waiting)
    if do not in waiting:
        waiting.append(do)


def _do_waiting(session: Any) -> None:
    # It is called for the release of a savepoint too.
    if not session.in_nested_transaction():
        waiting, session.info[_WAITING] = session.info[_WAITING], []
        for do in waiting:
            do()


def django_wrapper(conn: Any) -> Any:
    """The connection of this thread that is behind ``django.db.connection``, which is only a name for it."""
    from django.db import connections
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy

    found = connections[conn.alias] if isinstance(conn, ConnectionProxy) and hasattr(conn, "vendor") else conn
    if not isinstance(found, BaseDatabaseWrapper):
        raise InvalidArgument(f"conn must be a connection of Django (django.db.connection), not {type(conn).__name__}")
    return found


def check_psycopg(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Refuse a connection on which a record would not become part of a transaction."""
    if conn.closed:
        raise Closed(GONE)
    status = conn.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise InvalidArgument(FAILED)
    if status == TransactionStatus.IDLE and conn.autocommit:
        raise InvalidArgument(ALONE)


def check_django(conn: Any) -> None:
    """As ``check_psycopg``."""
    if conn.vendor != "postgresql":
        raise InvalidArgument(f"conn is a connection to {conn.vendor}, not to PostgreSQL")
    if conn.in_atomic_block:
        if conn.needs_rollback:
            raise InvalidArgument(FAILED)
    elif conn.get_autocommit():
        raise InvalidArgument(f"{ALONE} (`with transaction.atomic():`)")


def translate_foreign(error: BaseException, library: Library) -> TrunklineError:
    """What a driver has said, through a library that has wrapped it; or what the library itself has to say."""
    cause = getattr(error, "orig", None) or error
    # The last of them is the driver's own. What is wrapped around it names the statement, and records with it.
    while cause.__cause__ is not None and not isinstance(cause, psycopg.Error):
        cause = cause.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state == "25P02":
        return InvalidArgument(FAILED)
    if isinstance(cause, psycopg.Error):
        return translate(cause)
    if cause is error:
        return InvalidArgument(f"{library} refuses: {error}")
    said = getattr(cause, "diag", cause)
    return translate_state(
        state,
        getattr(said, "message_primary", None) or getattr(said, "message", None) or str(cause),
        hint=getattr(said, "message_hint", None) or getattr(said, "hint", None),
        detail=getattr(said, "message_detail", None) or getattr(said, "detail", None),
    )
