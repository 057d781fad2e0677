"""Groups that break one promise, before the checker: it sees every one of them, and nothing in ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.concurrency.sessions import opened
from tests.mutants.group_mutants import GROUP_MUTANTS, GroupMutant
from tests.mutants.group_scenes import group_findings
from tests.mutants.mutants import install_changes

SCENES = {mutant.scene.__name__: mutant for mutant in GROUP_MUTANTS}


@pytest.mark.parametrize("mutant", GROUP_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_checker_sees_the_mutant(make_database: Callable[[], str], mutant: GroupMutant) -> None:
    url = make_database()
    install_changes(url, mutant.changes, mutant.statements)
    with opened(url) as sessions:
        assert mutant.caught_as <= group_findings(mutant.scene, sessions, mutant.delivery)


@pytest.mark.parametrize("mutant", SCENES.values(), ids=SCENES.keys())
def test_our_group_plays_the_same_scene_and_is_clean(make_database: Callable[[], str], mutant: GroupMutant) -> None:
    with opened(make_database()) as sessions:
        assert group_findings(mutant.scene, sessions, mutant.delivery) == set()
