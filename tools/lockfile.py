"""Check that uv.lock fits pyproject.toml and can be used anywhere.

    python -m tools.lockfile

A lock made beside a mirror, a folder of wheels or a path carries that place into every clone. Ours names the
public index and its file host, and nothing else. Make it with `uv lock --no-config`, with no index in the
environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = "https://pypi.org/simple"
FILE_HOST = "files.pythonhosted.org"
OWN_NAME = "trunkline"


def foreign_sources(text: str) -> Iterator[str]:
    """Every package or file in the lock that does not come from the public index."""
    for package in tomllib.loads(text).get("package", []):
        name, source = package["name"], package.get("source", {})
        if name == OWN_NAME:
            if source != {"editable": "."}:
                yield f"{name}: source {source}, not the project itself"
            continue
        if source != {"registry": REGISTRY}:
            yield f"{name}: source {source}, not the public index"
        for file in [*package.get("wheels", []), *filter(None, [package.get("sdist")])]:
            url = file.get("url", file.get("path", "no address"))
            if urlsplit(url).hostname != FILE_HOST:
                yield f"{name}: file from {url}"


def staleness(root: Path) -> str | None:
    """What uv says when the lock no longer fits pyproject.toml; needs no network."""
    uv = root / ".tools" / "uv" / "bin" / "uv"
    program = str(uv) if uv.exists() else shutil.which("uv")
    if program is None:
        return "uv is missing; run `make setup`"
    hidden = {name for name in os.environ if name.startswith("UV_") and ("INDEX" in name or "LINKS" in name)}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment.setdefault("UV_CACHE_DIR", str(root / ".tools" / "cache" / "uv"))
    command = [program, "lock", "--check", "--offline", "--no-config", "--python", sys.executable]
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    return result.stderr.strip() if result.returncode else None


def main(root: Path = ROOT) -> int:
    faults = list(foreign_sources((root / "uv.lock").read_text("utf-8")))
    stale = staleness(root)
    if stale:
        faults.append(f"{stale}\nrun `uv lock --no-config` and commit uv.lock")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
