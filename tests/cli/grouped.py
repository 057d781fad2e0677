"""What tests of `trunkline group` have in common."""

from __future__ import annotations

import json
from typing import Any


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
