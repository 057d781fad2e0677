"""Write what a freshly installed schema consists of, for `trunkline db verify` to compare with.

    python -m tools.catalogue            install into an embedded server and write src/trunkline/sql/catalogue.json

tests/database/test_install.py fails where the file is stale.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import psycopg

from trunkline.client.install import catalogue, install
from trunkline.server import start

FILE = Path(__file__).resolve().parent.parent / "src" / "trunkline" / "sql" / "catalogue.json"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = start(Path(folder) / "data")
        try:
            install(server.url, roles={})
            with psycopg.connect(server.url) as connection:
                found = catalogue(connection)
        finally:
            server.stop()
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(found.items()))), indent=1) + b"\n")
    print(f"{len(found)} objects in {FILE.name}")


if __name__ == "__main__":
    main()
