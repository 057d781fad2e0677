"""Put the figures of the last complete benchmark into README.md, between its two marks.

    python -m tools.readme_bench            write them
    python -m tools.readme_bench --check    change nothing; exit 1 where README says anything else

The figures come from benchmarks/results/log-latest.json, which a complete `trunkline bench log` writes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "log-latest.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->\n"

# name of the line, what it is called here
SHOWN = {
    "json-1000.write": "write, batches of 1,000 (220-byte JSON, 4 partitions, 4 writers)",
    "json-100.write": "write, batches of 100",
    "json-1.write": "write, one by one",
    "json-1000.read_batches": "read as columns, batches of 1,000",
    "json-1000.read": "read as records, batches of 1,000",
    "json-1.read_batches": "read as columns, written one by one",
    "json-1000.disk": "bytes a record on disk, batches of 1,000",
    "json-1.disk": "bytes a record on disk, one by one",
    "random-100.write": "write, 1 KiB of random bytes, batches of 100",
    "random-100.read_batches": "read as columns, 1 KiB of random bytes, batches of 100",
    "snapshot.publish": "publish rate while a snapshot is held: last quarter of 60 s against the first",
    "single.publish": "one `publish` against one plain INSERT, median ms",
    "concurrent.tasks": "100 concurrent `publish` calls against one at a time",
}


def table(results: dict[str, Any]) -> str:
    """The block between the marks."""
    lines = {line["name"]: line for line in results["lines"] if line.get("flush", "fast") == "fast"}
    rows = ["| | Trunkline | baseline | ratio | target |", "|---|---|---|---|---|"]
    for name, title in SHOWN.items():
        if name in lines:
            line = lines[name]
            figures = [_figure(line["value"]), _figure(line["baseline"]), f"**{line['ratio']:.2f}**", _target(line)]
            rows.append(f"| {title} | {' | '.join(figures)} |")
    where = results["environment"]
    rows += [
        "",
        f"PostgreSQL {where['server_version']}, commit {str(where['commit'])[:10]}. All lines, with the slow flush",
    ]
    rows += ["and the settings, are in [benchmarks/results](benchmarks/results/log-latest.json)."]
    return "\n".join(rows) + "\n"


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _target(line: dict[str, Any]) -> str:
    if line.get("target") is None:
        return ""
    sign = "≤" if line.get("direction") == "at_most" else "≥"
    return f"{sign} {line['target']:g}{'' if line['ok'] else ' missed'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where README is stale")
    check = parser.parse_args().check
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    fresh = before + BEGIN + table(json.loads(RESULTS.read_text(encoding="utf-8"))) + END + after
    if fresh != text and check:
        print("stale: README.md does not show the figures of benchmarks/results/log-latest.json")
        return 1
    README.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
