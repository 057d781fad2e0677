"""Who the server runs as: an ordinary user, root with an account, root in a user namespace."""

from __future__ import annotations

import os
import pwd
import stat
import sys
from pathlib import Path

import psycopg
import pytest

import trunkline.server
from tests.server.conftest import MOUNT_NAMESPACE, RunPython
from trunkline.errors import EmbeddedServerError
from trunkline.server import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and needs `unshare`")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")

STORY = """
import os, sys, psycopg, trunkline.server
server = trunkline.server.start(sys.argv[1])
print(os.geteuid(), os.stat(server.data_dir / "pgdata").st_uid)
with psycopg.connect(server.url) as connection:
    connection.execute("create table kept as select 1")
server.kill()
server.restart()
with psycopg.connect(server.url) as connection:
    assert connection.execute("select count(*) from kept").fetchone() == (1,)
assert trunkline.server.find(sys.argv[1]).pid == server.pid
maps = {open(f"/proc/{pid}/uid_map").read() for pid in ("self", server.pid)}
print("a namespace of its own" if len(maps) == 2 else "directly")
server.stop()
"""


def _account_of(server: Server) -> str:
    return pwd.getpwuid(Path(f"/proc/{server.pid}").stat().st_uid).pw_name


def _accounts() -> list[str]:
    return [name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()}]


@root_only
def test_root_uses_an_account_that_exists_and_shows_it_nothing_else(place: Path) -> None:
    server = trunkline.server.start(place / "dev")
    assert _account_of(server) == _accounts()[0]
    home = server.data_dir
    owners = {path.name: path.owner() for path in home.iterdir()}
    assert owners.pop("pgdata") == _accounts()[0]
    assert set(owners.values()) == {"root"}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir())}
    assert modes["dev"] == 0o710
    assert modes["state.json"] == modes["server.log"] == 0o600
    assert modes["pgdata"] == 0o700
    assert all(mode & 0o007 == 0 for mode in modes.values())
    _check_that_the_account_must_come_in(server)


def _check_that_the_account_must_come_in(server: Server) -> None:
    """The data are the account's: nobody else, and no namespace, may take its place."""
    server.stop()
    server.data_dir.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match=r"belongs to uid \d+, which cannot run the server"):
        trunkline.server.start(server.data_dir)
    server.data_dir.chmod(0o710)
    server.restart()
    assert _account_of(server) == _accounts()[0]


@root_only
def test_root_uses_nobody_where_there_is_no_account_postgres(
    place: Path, run_python: RunPython, mount_namespaces: None
) -> None:
    accounts = place / "passwd"
    lines = Path("/etc/passwd").read_text().splitlines()
    accounts.write_text("\n".join(line for line in lines if not line.startswith("postgres:")) + "\n")
    accounts.chmod(0o644)
    behind = (*MOUNT_NAMESPACE, "sh", "-c", f'mount --bind {accounts} /etc/passwd && exec "$@"', "sh")
    result = run_python(STORY, place / "dev", behind=behind)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"0 {pwd.getpwnam('nobody').pw_uid}", "directly"]


@root_only
def test_root_uses_a_namespace_where_no_account_can_go(place: Path, user_namespaces: None) -> None:
    """And opens no directory for it: what was for root only stays so."""
    private = place / "private"
    private.mkdir(mode=0o700)
    server = trunkline.server.start(private)
    assert _account_of(server) == "root"
    inner, outer, count = Path(f"/proc/{server.pid}/uid_map").read_text().split()
    assert (int(inner) > 0, outer, count) == (True, "0", "1")
    assert "CapEff:\t0000000000000000" in Path(f"/proc/{server.pid}/status").read_text()
    assert {path.owner() for path in server.data_dir.iterdir()} == {"root"}
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    with psycopg.connect(server.url) as connection:
        connection.execute("create table kept as select 1")
    server.kill()
    server.restart()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (1,)
    server.stop()


def test_an_ordinary_user_runs_it_directly(place: Path, run_python: RunPython, user_namespaces: None) -> None:
    """As root: behind a namespace in which we are uid 1000. As somebody else: as we are."""
    behind = ("unshare", "--user", "--map-user=1000", "--map-group=1000") if os.geteuid() == 0 else ()
    result = run_python(STORY, place / "dev", behind=behind)
    assert result.returncode == 0, result.stderr
    ids, way = result.stdout.splitlines()
    user, owner = ids.split()
    assert user == owner != "0"
    assert way == "directly"
    assert stat.S_IMODE((place / "dev").stat().st_mode) == 0o700


def test_root_of_a_container_without_accounts_and_namespaces_is_told_what_to_do(
    place: Path, run_python: RunPython, user_namespaces: None
) -> None:
    """Method: root of a namespace that knows no other uid and may make no further namespace."""
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    behind = ("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh")
    result = run_python(STORY, place / "dev", behind=behind)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("trunkline.errors.EmbeddedServerError: PostgreSQL does not run as root")
    assert "user namespaces are forbidden" in last
    assert "TRUNKLINE_DEV_DIR" in last


def test_root_of_a_container_that_knows_no_other_uid_uses_a_namespace(
    place: Path, run_python: RunPython, user_namespaces: None
) -> None:
    result = run_python(STORY, place / "dev", behind=("unshare", "--user", "--map-root-user"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["0 0", "a namespace of its own"]


@root_only
def test_a_directory_of_another_account_is_refused(place: Path) -> None:
    (place / "dev").mkdir()
    os.chown(place / "dev", 12345, 12345)
    with pytest.raises(EmbeddedServerError, match="belongs to another account"):
        trunkline.server.start(place / "dev")
    assert list((place / "dev").iterdir()) == []
