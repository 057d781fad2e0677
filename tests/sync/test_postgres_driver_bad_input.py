# Generated from tests/aio/test_postgres_driver_bad_input.py by tools/twins.py (make fix). Change the source, not this file.
"""URLs of the Postgres driver that cannot be meant, and servers that refuse: typed errors, and never a password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

import trunkline
from tests.portable.places import place
from trunkline import errors
from trunkline.server import Server

SECRET = "guessed-secret"


def refusal(url: str, *, topic: bool = False) -> errors.TrunklineError:
    """The error that opening ends with; it repeats no password."""
    open_it = trunkline.open_topic if topic else trunkline.open_subscription
    with pytest.raises(errors.TrunklineError) as refused:
        open_it(url)
    assert SECRET not in f"{refused.value!r} {refused.value} {refused.value.__cause__!r}"
    return refused.value


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("trunkline://h/db/orders", "neither which queue nor group"),
        ("trunkline://h/db/orders?queue=a&group=b", "both a queue and a group"),
        ("trunkline://h/db/orders?queue=", "queue name"),
        ("trunkline://h/db/orders?group=..", "group name"),
        ("trunkline://h/db/orders?quue=a", "queue"),
        ("trunkline://h/db/orders?queue=a&sslmode=perhaps", "sslmode must be one of"),
        ("trunkline://h/db/orders?queue=a&target_session_attrs=best", "target_session_attrs"),
        ("trunkline://h/db/orders?queue=a&keepalives_idle=soon", "whole number"),
        ("trunkline://h/db/orders?queue=a&password=x", "no parameter 'password'"),
        ("trunkline://h:1/db/orders?queue=a&port=2", "port twice"),
        ("trunkline://h/db/orders?queue=a&host=i", "host twice"),
        ("trunkline://h/db/orders?queue=a&port=http", "port must be"),
        ("trunkline://h/orders?queue=a", "a database and a topic"),
        ("trunkline://h/db/?queue=a", "topic name"),
        ("trunkline://h?queue=a", "a database and a topic"),
        ("trunkline://h/d%00b/orders?queue=a", "NUL"),
        ("trunkline:///?queue=a", "topic name"),
        ("trunkline:///-orders?queue=a", "topic name"),
        ("trunkline:///orders?queue=a&sslmode=require", "no host"),
        (f"trunkline://user:{SECRET}@/orders?queue=a", "no host"),
        ("trunkline://:5432/orders?queue=a", "no host"),
        (f"trunkline://user:{SECRET}@h/db/orders?queue=a&ack_deadline_s=soon", "duration"),
    ],
)
def test_S2_23_a_url_that_cannot_be_meant_is_an_invalid_argument(url: str, said: str) -> None:
    error = refusal(url)
    assert isinstance(error, errors.InvalidArgument), error
    assert said in str(error)


@pytest.mark.parametrize("kind", [{"queue": "none"}, {"group": "none"}], ids=["queue", "group"])
def test_S2_12_a_queue_or_group_that_does_not_exist_is_not_found_and_not_created(
    db_url: str, kind: dict[str, str]
) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
    assert isinstance(refusal(place(db_url, "orders", **kind)), errors.NotFound)
    assert isinstance(refusal(place(db_url, "orders", **kind)), errors.NotFound)


def test_S2_11_a_topic_that_does_not_exist_is_not_found_and_not_created(db_url: str) -> None:
    assert isinstance(refusal(place(db_url, "nowhere"), topic=True), errors.NotFound)
    assert isinstance(refusal(place(db_url, "nowhere", queue="emails")), errors.NotFound)
    assert isinstance(refusal(place(db_url, "nowhere", group="billing")), errors.NotFound)
    with trunkline.connect(db_url) as tl:
        assert tl.topics() == []


@pytest.mark.direct("a pooler has passwords of its own")
@pytest.mark.parametrize("is_topic", [True, False])
def test_a_wrong_password_is_permission_denied_and_not_shown(server: Server, is_topic: bool) -> None:
    parts = urlsplit(server.database_url("postgres"))
    assert parts.password is not None
    url = place(server.database_url("postgres").replace(parts.password, SECRET), "orders")
    error = refusal(url if is_topic else f"{url}?queue=emails", topic=is_topic)
    assert isinstance(error, errors.PermissionDenied)


@pytest.mark.direct("asks for databases that no pooler knows")
def test_a_database_that_is_missing_or_empty_is_told(server: Server) -> None:
    error = refusal(place(server.database_url("nowhere"), "orders"), topic=True)
    assert isinstance(error, errors.NotFound)
    error = refusal(place(server.database_url("postgres"), "orders", queue="emails"))
    assert isinstance(error, errors.SchemaMissing)
    assert "trunkline db install" in str(error)


@pytest.mark.direct("makes roles and logs in as them")
def test_S2_24_a_role_without_grants_is_permission_denied(server: Server, direct_url: str) -> None:
    """Goal: who may not is told so. Method: a role that may nothing, one that may only publish, one that may only
    read."""
    with trunkline.connect(direct_url) as tl:
        tl.create_topic("orders")
        tl.create_group("billing", "orders")
        with tl.queue("orders", "emails"):
            pass
    database = urlsplit(direct_url).path.removeprefix("/")
    roles = {kind: f"{kind}_{database}" for kind in ("nobody", "producer", "consumer")}
    with psycopg.connect(direct_url, autocommit=True) as connection:
        for role in roles.values():
            statement = sql.SQL("create role {} login password {}")
            connection.execute(statement.format(sql.Identifier(role), sql.Literal(SECRET)))
        for kind in ("producer", "consumer"):
            grant = sql.SQL("grant {} to {}").format(sql.Identifier(f"trunkline_{kind}"), sql.Identifier(roles[kind]))
            connection.execute(grant)
        try:
            urls = {
                kind: direct_url.replace(urlsplit(direct_url).netloc.partition("@")[0], f"{role}:{SECRET}")
                for kind, role in roles.items()
            }
            error = refusal(place(urls["nobody"], "orders"), topic=True)
            assert isinstance(error, errors.PermissionDenied)
            for url in (
                place(urls["nobody"], "orders", queue="emails"),
                place(urls["producer"], "orders", queue="emails"),
                place(urls["producer"], "orders", group="billing"),
            ):
                assert isinstance(refusal(url), errors.PermissionDenied)
            with trunkline.open_topic(place(urls["consumer"], "orders")) as topic:
                with pytest.raises(errors.PermissionDenied):
                    topic.send(b"x")
        finally:
            for role in roles.values():
                connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def test_without_a_host_it_is_the_server_that_connect_finds(
    db_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("shop/orders")
    monkeypatch.setenv("TRUNKLINE_URL", db_url)
    with trunkline.open_topic("trunkline:///shop/orders") as topic:
        assert topic.send(b"x") == "shop/orders/0/1"
    monkeypatch.delenv("TRUNKLINE_URL")
    monkeypatch.setenv("TRUNKLINE_DEV_DIR", str(tmp_path / "none"))
    assert isinstance(refusal("trunkline:///shop/orders", topic=True), errors.NotConfigured)


@pytest.mark.direct("names the host in another way")
def test_host_port_and_database_may_be_parameters(direct_url: str) -> None:
    with trunkline.connect(direct_url) as tl:
        tl.create_topic("shop/orders")
    parts = urlsplit(direct_url)
    user = parts.netloc.rpartition("@")[0]
    for url in (
        f"trunkline://{user}@{parts.hostname}:{parts.port}{parts.path}/shop/orders",
        f"trunkline://{user}@{parts.hostname}:{parts.port}/shop%2Forders?dbname={parts.path[1:]}&sslmode=disable",
        f"trunkline://{user}@{parts.path}/shop/orders?host={parts.hostname}&port={parts.port}",
        f"pubsub+trunkline://{user}@{parts.hostname}:{parts.port}{parts.path}/shop/orders?application_name=x",
    ):
        with trunkline.open_topic(url) as topic:
            assert topic.send(b"x").startswith("shop/orders/0/")
