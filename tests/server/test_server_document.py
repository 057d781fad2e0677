"""docs/embedded-server.md: what it shows, runs."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import trunkline.server
from tests.server.conftest import RunPython
from trunkline.cli.dev import dev

PAGE = (Path(__file__).parents[2] / "docs" / "embedded-server.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_python_on_the_page_runs(code: str, shared_place: Path, run_python: RunPython) -> None:
    trunkline.server.stop(shared_place / "dev")
    result = run_python(code, TRUNKLINE_DEV_DIR=str(shared_place / "dev"))
    assert result.returncode == 0, result.stderr
    assert trunkline.server.find(shared_place / "dev") is None


def test_the_page_shows_every_command_and_only_such() -> None:
    shown = set(re.findall(r"\$ trunkline dev (?!-)(\w+)", PAGE))
    assert shown == set(dev.commands)


def test_options_on_the_page_exist() -> None:
    commands = [dev, *dev.commands.values()]
    known = {option for command in commands for option in _options(command)}
    assert set(re.findall(r"(?<=[ (])--[a-z-]+", PAGE)) <= known


def _options(command: click.Command) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts]
