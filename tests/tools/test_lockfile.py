"""uv.lock must be usable in every clone: the public index, the project itself, nothing else."""

from __future__ import annotations

import pytest

from tools import lockfile

GOOD = """
[[package]]
name = "trunkline"
source = { editable = "." }

[[package]]
name = "click"
source = { registry = "https://pypi.org/simple" }
sdist = { url = "https://files.pythonhosted.org/packages/a/click.tar.gz" }
wheels = [{ url = "https://files.pythonhosted.org/packages/b/click.whl" }]
"""


def test_the_public_index_is_welcome() -> None:
    assert list(lockfile.foreign_sources(GOOD)) == []


@pytest.mark.parametrize(
    ("ours", "foreign"),
    [
        ("https://pypi.org/simple", "https://mirror.example/simple"),
        ("https://files.pythonhosted.org/packages/b/click.whl", "https://mirror.example/click.whl"),
        ("https://files.pythonhosted.org/packages/a/click.tar.gz", "file:///srv/wheels/click.tar.gz"),
        ('registry = "https://pypi.org/simple"', 'path = "../click"'),
        ('editable = "."', 'editable = "/somewhere/else"'),
    ],
)
def test_every_other_place_is_named(ours: str, foreign: str) -> None:
    faults = list(lockfile.foreign_sources(GOOD.replace(ours, foreign)))
    assert len(faults) == 1


def test_the_committed_lock_names_no_other_place() -> None:
    assert list(lockfile.foreign_sources((lockfile.ROOT / "uv.lock").read_text("utf-8"))) == []
