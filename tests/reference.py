"""The reference material: tables of other engines, in a directory beside the checkout.

It is not part of the repository, so a test that needs it is skipped if it is absent. Nothing here
can fail during collection: only a running test knows the directory, by the fixture `reference` of
tests/conftest.py. A test that uses either of the two is marked `reference`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DIRECTORY = Path(__file__).resolve().parents[2] / "shared"
ABSENT = "the reference material is not beside this checkout"


def reference_cases(
    name: str,
    where: Callable[[dict[str, Any]], bool] | None = None,
    label: Callable[[dict[str, Any]], str] = lambda line: line["table"],
) -> list[Any]:
    """Return one parameter for each JSON line of a file, or one that is skipped where it is absent."""
    path = DIRECTORY / name
    if not path.is_file():
        absent = (pytest.mark.reference, pytest.mark.skip(reason=ABSENT))
        return [pytest.param(None, id="absent", marks=absent)]
    lines = [json.loads(text) for text in path.read_text("utf-8").splitlines() if text]
    return [
        pytest.param(line, id=label(line), marks=pytest.mark.reference)
        for line in lines
        if where is None or where(line)
    ]
