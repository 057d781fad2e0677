"""Write the sync twins of the async client and of its tests, or check that they are fresh.

    python -m tools.twins            write what is stale or missing, remove what lost its source
    python -m tools.twins --check    change nothing; exit 1 and list stale, missing, orphaned, hand-made

The source is async; the twin has the same names without waiting:

    src/trunkline/client/aio/**.py     ->  src/trunkline/client/sync/**.py   (not shim.py: written twice)
    src/trunkline/portable/aio/**.py   ->  src/trunkline/portable/sync/**.py
    src/trunkline/drivers/x/aio/**.py  ->  src/trunkline/drivers/x/sync/**.py
    src/trunkline/testing/aio/**.py    ->  src/trunkline/testing/sync/**.py
    tests/aio/**.py                    ->  tests/sync/**.py                  (not conftest.py, shim.py)

The converter reads tokens, so strings and names are never confused. What it does:

1. drops `async` and `await`, and the parentheses in `(await x()).y`;
2. renames names by NAMES, and dotted modules by MODULES (tools/async_to_sync.py); `Awaitable[T]` becomes `T`;
3. in docstrings and comments: the same names, and `await x(`, `async with`, `async for`, `async def`;
4. in a plain string that is nothing but a dotted name (`__all__`, monkeypatch paths): the same names;
5. keeps the other half of the one special form, for what differs beyond names:

       if True:  # ASYNC
           ...what the async source does
       else:
           ...what the twin does         (no else: the twin has nothing there)

6. sorts imports, drops those that are no longer used, formats.

It refuses, with file and line, what it would get wrong: a converted name or `await` inside an f-string, a
name that still looks async afterwards (add it to NAMES), `asyncio` in a twin (put it into shim.py), an `elif`
in the special form.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.async_to_sync import TwinError, convert, refuse_leftovers

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Generated from {source} by tools/twins.py (make fix). Change the source, not this file.\n"
HEADER_START = "# Generated from "


@dataclass(frozen=True)
class Tree:
    """A folder of sources and the folder of their twins, relative to the root."""

    source: str
    twin: str
    exempt: frozenset[str]

    def pairs(self, root: Path) -> Iterator[tuple[Path, Path]]:
        for source in self._files(root / self.source):
            yield source, root / self.twin / source.relative_to(root / self.source)

    def twins(self, root: Path) -> Iterator[Path]:
        yield from self._files(root / self.twin)

    def _files(self, folder: Path) -> Iterator[Path]:
        for path in sorted(folder.rglob("*.py")):
            if path.name not in self.exempt:
                yield path


SHIM = frozenset({"shim.py"})
TREES = (
    Tree("src/trunkline/client/aio", "src/trunkline/client/sync", SHIM),
    Tree("src/trunkline/portable/aio", "src/trunkline/portable/sync", SHIM),
    Tree("src/trunkline/drivers/memory/aio", "src/trunkline/drivers/memory/sync", SHIM),
    Tree("src/trunkline/drivers/postgres/aio", "src/trunkline/drivers/postgres/sync", SHIM),
    Tree("src/trunkline/testing/aio", "src/trunkline/testing/sync", SHIM),
    Tree("tests/aio", "tests/sync", frozenset({"conftest.py", "shim.py"})),
)


def twin_text(text: str, source: str, twin: str) -> str:
    """The finished twin of `text`; `source` and `twin` are paths relative to the root."""
    header = HEADER.format(source=source)
    converted = header + convert(text, source)
    sorted_text = _ruff(["check", "--quiet", "--select", "F401,I001", "--fix-only", "--exit-zero"], converted, twin)
    finished = _ruff(["format", "--quiet"], sorted_text, twin)
    refuse_leftovers(finished, source)
    return finished


def _ruff(arguments: list[str], text: str, name: str) -> str:
    beside = Path(sys.executable).with_name("ruff")
    program = str(beside) if beside.exists() else shutil.which("ruff")
    if program is None:
        raise TwinError("ruff is missing; run `make setup`")
    command = [program, *arguments, "--no-cache", "--stdin-filename", name, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise TwinError(f"{name}: ruff cannot read the converted text: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Finding:
    """A twin that is not as it should be; `text` is what belongs there, None when nothing does."""

    state: str
    twin: Path
    text: str | None


def findings(root: Path, trees: tuple[Tree, ...] = TREES) -> Iterator[Finding]:
    for tree in trees:
        expected: set[Path] = set()
        for source, twin in tree.pairs(root):
            expected.add(twin)
            names = (str(path.relative_to(root)) for path in (source, twin))
            text = twin_text(source.read_text("utf-8"), *names)
            if not twin.exists():
                yield Finding("missing", twin, text)
            elif twin.read_text("utf-8") != text:
                yield Finding("stale", twin, text)
        for twin in tree.twins(root):
            if twin not in expected:
                generated = twin.read_text("utf-8").startswith(HEADER_START)
                yield Finding("orphaned" if generated else "hand-made", twin, None)


def settle(finding: Finding) -> None:
    """Make it as it should be. A hand-made file is left: it may be somebody's work."""
    if finding.text is not None:
        finding.twin.parent.mkdir(parents=True, exist_ok=True)
        finding.twin.write_text(finding.text, "utf-8")
    elif finding.state == "orphaned":
        finding.twin.unlink()


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Write or check the sync twins.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a twin is not fresh")
    check = parser.parse_args(arguments).check
    try:
        found = list(findings(root))
    except (TwinError, SyntaxError) as error:
        print(f"twins: {error}", file=sys.stderr)
        return 1
    for finding in found:
        if not check:
            settle(finding)
        print(f"{finding.state}: {finding.twin.relative_to(root)}")
    wrong = [finding for finding in found if check or finding.state == "hand-made"]
    if any(finding.state == "hand-made" for finding in wrong):
        print("a hand-made file in a twin's folder: move it, or add its name to `exempt` in tools/twins.py")
    if check and wrong:
        print("run `make fix` to write the twins anew")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
