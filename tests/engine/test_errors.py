"""The places of error classes and their attributes."""

from pathlib import Path

import pytest

from engine import conflict_facts, errors


@pytest.mark.parametrize("name", ["ConflictFacts", "ConflictFile", "ConflictSide", "Remedy"])
def test_the_values_of_a_conflict_have_one_definition_and_two_doors(name: str):
    assert getattr(errors, name) is getattr(conflict_facts, name)


@pytest.mark.parametrize("module", [errors, conflict_facts], ids=lambda path: path.__name__)
def test_no_module_of_errors_reaches_400_lines(module):
    assert len(Path(module.__file__).read_text("utf-8").splitlines()) < 400
