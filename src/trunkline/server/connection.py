"""The two questions asked over the wire: is it there, and is it ours."""

from __future__ import annotations

from trunkline.errors import EmbeddedServerError
from trunkline.server.state import DATABASE, HOST, USER, State

CONNECT_S = 10


def answers(port: int) -> bool:
    """Whether a server takes connections at all; True also when all its connections are in use."""
    from psycopg import pq  # here: asking for a server that was never started must not cost this import

    return pq.PGconn.ping(_conninfo(port, DATABASE).encode()) == pq.Ping.OK


def prepare(state: State) -> str:
    """Proves that the server knows our password, makes our database if it is missing, gives the version."""
    import psycopg

    try:
        with psycopg.connect(_conninfo(state.port, "postgres"), password=state.password, autocommit=True) as connection:
            found = connection.execute("select 1 from pg_catalog.pg_database where datname = %s", [DATABASE])
            if found.fetchone() is None:
                connection.execute("create database trunkline")
            return (connection.info.parameter_status("server_version") or "").split()[0]
    except psycopg.Error as error:
        raise EmbeddedServerError(f"the server runs but does not let us in: {error}") from error


def _conninfo(port: int | None, database: str) -> str:
    from psycopg.conninfo import make_conninfo

    # All that a PG* variable of the caller could change is said here.
    return make_conninfo(
        host=HOST,
        hostaddr=HOST,
        port=port,
        user=USER,
        dbname=database,
        sslmode="disable",
        gssencmode="disable",
        channel_binding="prefer",
        target_session_attrs="any",
        options="",
        connect_timeout=CONNECT_S,
        application_name="trunkline dev",
    )
