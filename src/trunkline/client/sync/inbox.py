# Generated from src/trunkline/client/aio/inbox.py by tools/twins.py (make fix). Change the source, not this file.
"""Inboxes: which records were dealt with already, for handlers whose effects are outside of the database.

The id of a record is noted in a transaction of the caller's. Whoever brings the same record meanwhile waits for that
to end, and is told what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from trunkline.client import protocol
from trunkline.client.failures import translate
from trunkline.client.foreign import check_psycopg, library_of
from trunkline.client.sync.server import Server
from trunkline.client.sync.shim import IS_ASYNC
from trunkline.engine.checks import check_group_name, check_whole
from trunkline.errors import InvalidArgument
from trunkline.records import Record


class Inbox:
    """What was dealt with, by ids. ``tl.inbox(name)`` makes one; it is there once it was used."""

    def __init__(self, server: Server, name: str, keep_s: int | None) -> None:
        self.name = check_group_name(name)
        self._server = server
        self._keep_s = None if keep_s is None else check_whole("keep_s", keep_s, least=1)
        self._is_open = False

    def id_of(self, record: Record) -> str:
        """An id of the record that no other one ever has: an idempotency key for services that take one."""
        ((found,),) = self._server.ask(protocol.RECORD_ID, [record.topic, record.partition, record.offset])
        return str(found)

    def add(self, what: Record | str | bytes, *, conn: psycopg.Connection[Any]) -> bool:
        """Note a record, or an id of the producer's, in the transaction of ``conn``; whether it is new.

        It is remembered if and only if that commits. Another transaction that adds the same waits for it.
        """
        if library_of(conn, is_async=IS_ASYNC) != "psycopg":
            raise InvalidArgument(
                f"an inbox takes connections of psycopg, not {type(conn).__name__}; with others call "
                "trunkline.inbox_add in SQL"
            )
        check_psycopg(conn)
        self._open()
        statement, parameters = _asked(what)
        try:
            with conn.cursor(row_factory=tuple_row) as cursor:
                cursor.execute(statement, [self.name, *parameters])
                ((is_new,),) = cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error
        return bool(is_new)

    @contextmanager
    def once(self, what: Record | str | bytes, *, conn: psycopg.Connection[Any]) -> Iterator[bool]:
        """As ``add``, around what is to be done once: where the block raises, it is forgotten again, whatever becomes
        of the transaction. On a connection without one it makes one, which commits with the block."""
        with conn.transaction():
            yield self.add(what, conn=conn)

    def sweep(self) -> int:
        """Forget now what is old enough, in all inboxes; how much that was. Retention does so, too."""
        ((swept,),) = self._server.repeat(protocol.INBOX_SWEEP)
        return int(swept)

    def _open(self) -> None:
        # In a transaction of its own: whoever else opens it must not wait for the caller's.
        if not self._is_open:
            self._server.repeat(protocol.INBOX_OPEN, [self.name, self._keep_s])
            self._is_open = True


def _asked(what: object) -> tuple[str, list[Any]]:
    if isinstance(what, Record):
        return protocol.INBOX_ADD_RECORD, [what.topic, what.partition, what.offset]
    if isinstance(what, str):
        return protocol.INBOX_ADD, [what.encode(errors="surrogatepass")]
    if isinstance(what, bytes):
        return protocol.INBOX_ADD, [what]
    raise InvalidArgument(f"an inbox takes a record, or an id as str or bytes, not {type(what).__name__}")
