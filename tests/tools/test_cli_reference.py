"""The reference of the command line: every visible command, in order, fresh or told to be stale."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tools import cli_reference


@click.group()
def line() -> None:
    """Everything."""


@line.command()
@click.option("--count", default=1, show_default=True, help="How many.")
def produce(count: int) -> None:
    """Append records."""


@line.command(hidden=True)
def secret() -> None:
    """Not for people."""


@line.group()
def topic() -> None:
    """Topics."""


@topic.command("list")
def list_topics() -> None:
    """Name them."""


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_reference, "command_line", lambda: line)


def test_every_visible_command_has_its_section() -> None:
    page = cli_reference.page(line)
    headings = [text for text in page.splitlines() if text.startswith("## ")]
    assert headings == [
        "## trunkline",
        "## trunkline produce",
        "## trunkline topic",
        "## trunkline topic list",
    ]
    assert "--count INTEGER  How many.  [default: 1]" in page
    assert "Not for people" not in page


def test_the_check_is_content_only_with_what_was_written(
    ours: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_reference.main(["--check"], tmp_path) == 1
    assert "stale: docs/cli.md" in capsys.readouterr().out
    assert cli_reference.main([], tmp_path) == 0
    assert cli_reference.main(["--check"], tmp_path) == 0
    (tmp_path / "docs/cli.md").write_text("changed")
    assert cli_reference.main(["--check"], tmp_path) == 1
