"""`trunkline bench`: the benchmarks of the repository."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from trunkline.errors import NotFound

REPOSITORY = Path(__file__).resolve().parents[3]


@click.group()
def bench() -> None:
    """Measure against a baseline.

    Needs a clone of the repository.
    """


@bench.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--json] [--quick] [ARGUMENT]...")
@click.pass_context
def log(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Measure the log against one row a record. Arguments are handed on to benchmarks.log."""
    if not any((REPOSITORY / "benchmarks" / name).exists() for name in ("log.py", "log/__init__.py")):
        raise NotFound("the benchmarks are not part of the package: run this in a clone of the repository")
    if str(REPOSITORY) not in sys.path:
        sys.path.insert(0, str(REPOSITORY))
    context.exit(importlib.import_module("benchmarks.log").main(list(arguments)))
