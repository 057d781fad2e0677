"""Check that the SQL of the schema keeps the rules of the house.

    python -m tools.sqlstyle     exit 1 and list what breaks them

- src/trunkline/sql/<noun>/<name>.sql creates one function, procedure or view: `trunkline.<name>` (not the
  scripts in migrations/ and install/);
- the files of src/trunkline/sql/migrations/ are numbered 0001_ … without a gap;
- every file starts with a comment that states the promise, writes keywords in lower case, and has no pg_sleep
  and no truncate: nothing waits, and nothing is emptied behind a reader.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SQL = Path("src/trunkline/sql")
MIGRATIONS = "migrations"
SCRIPTS = {MIGRATIONS, "install"}

COMMENT_OR_STRING = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
CREATED = re.compile(r"\bcreate\s+(?:or\s+replace\s+)?(?:function|procedure|view)\s+([\w.]*\w)\b(?!\.)")
SHOUTED = re.compile(
    r"\b(ALTER|AND|AS|BEGIN|CASE|COMMIT|CREATE|DECLARE|DELETE|DO|DROP|ELSE|ELSIF|END|EXCEPTION|EXECUTE|EXISTS|"
    r"FALSE|FOR|FROM|FUNCTION|GRANT|GROUP|HAVING|IF|IN|INDEX|INSERT|INTO|IS|JOIN|LANGUAGE|LEFT|LIMIT|LOOP|NOT|"
    r"NULL|ON|OR|ORDER|PERFORM|PRIMARY|RAISE|RETURN|RETURNS|REVOKE|SELECT|SET|TABLE|THEN|TO|TRUE|UNION|UPDATE|"
    r"USING|VALUES|VIEW|WHEN|WHERE|WHILE|WITH)\b"
)
FORBIDDEN = re.compile(r"\b(pg_sleep\w*|truncate)\b", re.IGNORECASE)


def faults(root: Path) -> Iterator[str]:
    """One line a fault: file, line where there is one, what to write instead."""
    folder = root / SQL
    for path in sorted(folder.rglob("*.sql")):
        shown = path.relative_to(root)
        text = path.read_text("utf-8")
        found = [*_text_faults(text)]
        if path.parent.name not in SCRIPTS:
            found += _object_faults(path, text)
        yield from (f"{shown}{fault}" for fault in found)
    yield from _numbering_faults(sorted((folder / MIGRATIONS).glob("*.sql")))


def _text_faults(text: str) -> Iterator[str]:
    if not text.startswith("--"):
        yield ": start with a comment that states the promise, the locks in order and the errors"
    code = COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for pattern, advice in ((SHOUTED, "write it in lower case"), (FORBIDDEN, "not in our SQL")):
        for match in pattern.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            yield f":{line}: {match[0]}: {advice}"


def _object_faults(path: Path, text: str) -> Iterator[str]:
    own = f"trunkline.{path.stem}"
    created = set(CREATED.findall(COMMENT_OR_STRING.sub("", text)))
    if not created and own in CREATED.findall(COMMENT.sub("", text)):
        created = {own}  # made by `execute format('create function …')`
    if created != {own}:
        names = ", ".join(sorted(created)) or "nothing"
        yield f": must create {own} and only that; it creates {names}"


def _numbering_faults(migrations: list[Path]) -> Iterator[str]:
    for expected, path in enumerate(migrations, start=1):
        if not re.fullmatch(rf"{expected:04d}_[a-z0-9_]+", path.stem):
            yield f"{SQL / MIGRATIONS / path.name}: the next migration is {expected:04d}_<name>.sql"


def main(root: Path = ROOT) -> int:
    found = list(faults(root))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
