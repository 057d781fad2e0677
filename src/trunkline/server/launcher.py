"""The first breath of a server process: a script, run in a fresh single-threaded interpreter.

It takes one JSON argument (a ``Launch``, see account.py), becomes who it is told to be, and executes
the command. Detached, it also takes the life lock, which the server and all its children then hold
until the last of them is gone, leaves the caller's session, prints the server's pid, and goes on when
it is told to: a caller that ends before it knows the pid leaves no server behind.

A script of its own because a user namespace cannot be entered by a process with threads, and because
a child of the caller would stay a zombie when the caller does not wait for it. Standard library only.
"""

import fcntl
import json
import os
import sys
import time
from typing import Any

LOCK_WAIT_S = 5.0
CLONE_NEWUSER = 0x10000000


def main() -> None:
    launch = json.loads(sys.argv[1])
    try:
        _detach(launch) if launch["life_lock"] else _become_and_run(launch)
    except OSError as error:
        sys.exit(f"{error}")


def _become_and_run(launch: dict[str, Any]) -> None:
    os.umask(0o077)
    if launch["namespace"]:
        _enter_namespace(launch["uid"], launch["gid"])
    elif launch["uid"] is not None:
        os.setgroups(launch["groups"])
        os.setgid(launch["gid"])
        os.setuid(launch["uid"])
    os.chdir(launch["directory"])
    command = launch["command"]
    os.execv(command[0], command)  # noqa: S606  (no shell is what we want)


def _enter_namespace(uid: int, gid: int) -> None:
    import ctypes  # here: only namespaces need it, and it costs 10 ms

    if sys.platform != "linux":
        raise OSError("this system has no user namespaces")
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(f"user namespaces are forbidden ({os.strerror(ctypes.get_errno())})")
    try:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {outer_uid} 1")
        _write("/proc/self/gid_map", f"{gid} {outer_gid} 1")
    except OSError as error:
        raise OSError(f"user namespaces are forbidden for root ({error.strerror})") from error


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _detach(launch: dict[str, Any]) -> None:
    lock = _take_life_lock(launch["life_lock"])
    failure_out, failure_in = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        _run_detached(launch, lock, failure_in)
    os.close(failure_in)
    sys.stdout.write(f"{pid}\n")
    sys.stdout.flush()
    with os.fdopen(failure_out, "rb") as stream:
        failure = stream.read()
    if failure:
        os.waitpid(pid, 0)
        sys.exit(failure.decode(errors="replace"))


def _take_life_lock(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Whoever asks whether the server lives holds the lock for an instant.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return descriptor


def _run_detached(launch: dict[str, Any], lock: int, failure_in: int) -> None:
    try:
        os.setsid()
        if not os.read(0, 1):
            os._exit(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # The caller reads the launcher's output to its end: the server must not keep it open.
        os.dup2(launch["log_descriptor"], 1)
        os.dup2(launch["log_descriptor"], 2)
        os.close(launch["log_descriptor"])
        os.set_inheritable(lock, True)
        _become_and_run(launch)
    except BaseException as error:  # noqa: BLE001  (the forked copy must end here, whatever happened)
        os.write(failure_in, str(error).encode())
    os._exit(127)


if __name__ == "__main__":
    main()
