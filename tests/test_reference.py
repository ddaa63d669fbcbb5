"""A checkout without the reference material collects every test, and skips those that need it."""

import re
from pathlib import Path

from tests import reference

ROOT = Path(__file__).parents[1]
BESIDE = re.compile(
    r'parents.*"shared"|import .*\breference$|reference import (?!reference_cases$)', re.M
)
MAY_LOOK = {"reference.py", "conftest.py", "test_reference.py"}


def test_only_one_module_looks_beside_the_checkout():
    looking = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if BESIDE.search(path.read_text("utf-8")) and path.name not in MAY_LOOK
    ]
    assert looking == []


def test_cases_that_are_absent_are_one_skipped_case(monkeypatch, tmp_path):
    monkeypatch.setattr(reference, "DIRECTORY", tmp_path / "nothing")
    (case,) = reference.reference_cases("tables/expected.jsonl", where=lambda line: line["x"])
    assert {mark.name for mark in case.marks} == {"reference", "skip"}
