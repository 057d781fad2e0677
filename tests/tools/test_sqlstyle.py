"""The rules that the schema's SQL files keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import sqlstyle

GOOD = "-- The promise.\ncreate function trunkline.log_read() returns void\nlanguage sql as $$ select 1 $$;\n"


def faults(tmp_path: Path, text: str, name: str = "log/log_read.sql") -> list[str]:
    path = tmp_path / sqlstyle.SQL / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(sqlstyle.faults(tmp_path))


def test_a_file_that_keeps_the_rules_has_no_faults(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD) == []
    assert sqlstyle.main(tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD.replace("-- The promise.\n", ""), "start with a comment"),
        (GOOD.replace("log_read", "log_write"), "must create trunkline.log_read"),
        (GOOD + GOOD.replace("log_read", "log_more"), "it creates trunkline.log_more, trunkline.log_read"),
        (GOOD.replace("trunkline.log_read", "log_read"), "it creates log_read"),
        (GOOD.replace("select 1", "SELECT 1"), "log_read.sql:3: SELECT: write it in lower case"),
        (GOOD.replace("select 1", "select pg_sleep(1)"), ":3: pg_sleep: not in our SQL"),
        (GOOD.replace("select 1", "truncate t"), ":3: truncate: not in our SQL"),
    ],
)
def test_each_rule_has_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    found = faults(tmp_path, text)
    assert len(found) == 1
    assert fault in found[0]
    assert sqlstyle.main(tmp_path) == 1


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("The promise.", "It never calls pg_sleep; SELECT is a word, TRUNCATE too."),
        GOOD.replace("select 1", "select 'SELECT pg_sleep(1)'"),
        GOOD.replace("select 1", "execute format($f$create function trunkline.%I()$f$, 'x')"),
        "-- Made at install.\ndo $$ begin execute 'create function trunkline.log_read() …'; end $$;\n",
    ],
)
def test_comments_strings_and_made_names_are_not_mistaken_for_code(tmp_path: Path, text: str) -> None:
    assert faults(tmp_path, text) == []


def test_migrations_are_numbered_without_a_gap(tmp_path: Path) -> None:
    assert faults(tmp_path, "-- One.\n", "migrations/0001_log.sql") == []
    assert "the next migration is 0002" in faults(tmp_path, "-- Three.\n", "migrations/0003_x.sql")[0]
