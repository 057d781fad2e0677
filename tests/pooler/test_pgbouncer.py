"""The tests' own PgBouncer: it lets in whom the server lets in, leaves nothing behind, and says why it is missing."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import trunkline
from tests.pooler import pgbouncer, program
from tests.pooler.pgbouncer import Pooler
from tests.pooler.program import NotToBeHad
from trunkline import errors
from trunkline.server import Server
from trunkline.server.directory import Directory

needs_apt = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None, reason="no apt here"
)


def test_every_database_and_role_of_the_server_gets_through(
    pooler: Pooler, server: Server, make_database: Callable[[], str]
) -> None:
    who = "select current_user::text, current_database()::text"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("create role another login password 'secret'")
        try:
            for url in (make_database(), make_database()):
                name = url.rpartition("/")[2]
                with psycopg.connect(pooler.through(url)) as connection:
                    assert connection.execute(who).fetchone() == ("trunkline", name)
                other = f"postgresql://another:secret@127.0.0.1:{pooler.port}/{name}"
                with psycopg.connect(other) as connection:
                    assert connection.execute(who).fetchone() == ("another", name)
        finally:
            admin.execute("drop role another")


def test_a_database_that_the_pooler_does_not_know_is_not_found(
    pgbouncer_program: str, server: Server, db_url: str, tmp_path: Path
) -> None:
    with (
        pgbouncer.running(pgbouncer_program, server.url, tmp_path / "run", databases="another") as pooler,
        pytest.raises(errors.NotFound, match="no such database"),
    ):
        trunkline.connect(pooler.through(db_url))


def test_when_it_ends_no_process_and_no_password_are_left(
    pgbouncer_program: str, server: Server, db_url: str, tmp_path: Path
) -> None:
    """Even though a client is still connected."""
    folder = tmp_path / "run"
    with pgbouncer.running(pgbouncer_program, server.url, folder) as pooler:
        client = psycopg.connect(pooler.through(db_url))
        client.execute("select 1")
        assert Directory(folder).alive()
    with pytest.raises(psycopg.OperationalError):
        client.execute("select 1")
    client.close()
    assert not Directory(folder).alive()
    password = str(conninfo_to_dict(server.url)["password"])
    assert all(password not in file.read_text() for file in folder.iterdir())


def test_a_port_that_was_taken_meanwhile_is_left_alone(
    pgbouncer_program: str, server: Server, db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free_port = pgbouncer._free_port
        ports = iter([taken.getsockname()[1]])
        monkeypatch.setattr(pgbouncer, "_free_port", lambda: next(ports, None) or free_port())
        with pgbouncer.running(pgbouncer_program, server.url, tmp_path / "run") as pooler:
            assert pooler.port != taken.getsockname()[1]
            with psycopg.connect(pooler.through(db_url)) as connection:
                assert connection.execute("select 1").fetchone() == (1,)


def test_what_keeps_it_from_starting_is_told(pgbouncer_program: str, server: Server, tmp_path: Path) -> None:
    with (
        pytest.raises(pgbouncer.PoolerError, match=r"cannot load config file; all it said is in .*server\.log"),
        pgbouncer.running(pgbouncer_program, server.url, tmp_path / "run", databases="not one name"),
    ):
        pytest.fail("it has started")


def test_where_there_is_none_and_none_can_be_fetched_the_reason_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "PLACES", ())
    monkeypatch.setattr(program, "FETCHED", tmp_path / "tools" / "pgbouncer")
    with pytest.raises(NotToBeHad, match=r"apt-get is missing to fetch it; install pgbouncer"):
        program.find()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that apt takes for its only source of packages: no network."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{folder} ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{tmp_path}/sources.list";\nDir::Etc::SourceParts "/dev/null";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    (folder / "Packages").touch()
    return folder


def add_package(packages: Path, name: str, file: str, text: str, depends: str = "") -> None:
    """A package that holds one file."""
    made = packages / name
    (made / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@localhost>\nDescription: -\n"
    control += f"Depends: {depends}\n" if depends else ""
    (made / "DEBIAN" / "control").write_text(control)
    (made / file).parent.mkdir(parents=True)
    (made / file).write_text(text)
    (made / file).chmod(0o755)
    archive = packages / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--build", str(made), str(archive)], check=True, capture_output=True)
    listed = f"Filename: ./{archive.name}\nSize: {archive.stat().st_size}\n"
    listed += f"SHA256: {hashlib.sha256(archive.read_bytes()).hexdigest()}\n"
    with (packages / "Packages").open("a") as file_of_all:
        file_of_all.write(f"{control}{listed}\n")


@needs_apt
def test_it_is_fetched_with_its_libraries_and_nothing_else_is_left(packages: Path, tmp_path: Path) -> None:
    add_package(packages, "pgbouncer", "usr/sbin/pgbouncer", "#!/bin/sh\ncat $LD_LIBRARY_PATH/libx.so\n", "libx1")
    add_package(packages, "libx1", "usr/lib/x-linux-gnu/libx.so", "the library")
    (tmp_path / "tools").mkdir()
    fetched = program.fetch(tmp_path / "tools" / "pgbouncer")
    done = subprocess.run([fetched], capture_output=True, text=True, check=True)
    assert done.stdout == "the library"
    assert os.listdir(tmp_path / "tools") == ["pgbouncer"]
    assert sorted(os.listdir(tmp_path / "tools" / "pgbouncer")) == ["root", "run"]


@needs_apt
@pytest.mark.parametrize("found", ["nothing", "a broken one"])
def test_what_cannot_be_fetched_says_why_and_leaves_nothing(packages: Path, tmp_path: Path, found: str) -> None:
    if found == "a broken one":
        add_package(packages, "pgbouncer", "usr/sbin/pgbouncer", "#!/bin/sh\necho too old >&2\nexit 1\n")
    reason = {"nothing": "No packages found", "a broken one": "does not run here: too old"}[found]
    (tmp_path / "tools").mkdir()
    with pytest.raises(NotToBeHad, match=reason):
        program.fetch(tmp_path / "tools" / "pgbouncer")
    assert os.listdir(tmp_path / "tools") == []
