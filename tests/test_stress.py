"""The long hunt can be stopped, and goes on where it ended."""

import time
from pathlib import Path

from tests.stress import SEEDS, Part, State, parts, run_parts, summary

DONE, BROKEN = ("timeit", "-n1", "-r1", "pass"), ("timeit", "-n1", "-r1", "1 / 0")


def _part(name: str, arguments: tuple[str, ...], *, alone: bool = False) -> Part:
    return Part("a group", name, arguments, alone=alone, is_pytest=False)


def _never() -> float:
    return time.monotonic() + 3600


def test_a_hunt_continues_with_the_parts_that_have_not_passed(tmp_path: Path):
    hunt = [_part("good", DONE), _part("bad", BROKEN), _part("alone", DONE, alone=True)]
    path = tmp_path / "var" / "stress.json"
    first = State.load(path, resume=False)
    assert run_parts(hunt, first, until=_never(), jobs=2) == []
    again = State.load(path, resume=True)
    assert {result.name: result.status for result in again.results.values()} == {
        "good": "passed",
        "bad": "failed",
        "alone": "passed",
    }
    mended = [_part("good", BROKEN), _part("bad", DONE), _part("alone", BROKEN, alone=True)]
    assert run_parts(mended, again, until=_never(), jobs=2) == []
    assert {result.status for result in again.results.values()} == {"passed"}
    assert "| a group | 3 | 0 |" in summary(again, 0)


def test_a_hunt_that_does_not_resume_starts_again(tmp_path: Path):
    state = State.load(tmp_path / "stress.json", resume=False)
    run_parts([_part("good", DONE)], state, until=_never(), jobs=1)
    assert State.load(tmp_path / "stress.json", resume=False).results == {}


def test_no_part_is_begun_when_the_time_is_over(tmp_path: Path):
    hunt = [_part("good", DONE), _part("alone", DONE, alone=True)]
    state = State.load(tmp_path / "stress.json", resume=False)
    assert run_parts(hunt, state, until=time.monotonic(), jobs=2) == hunt
    assert "Nothing was run." in summary(state, 2)


def test_a_part_of_pytest_reports_its_counts(tmp_path: Path):
    """Where a warning is an error, as in this repository."""
    strict = tmp_path / "pytest.ini"
    strict.write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
    test = tmp_path / "test_counted.py"
    test.write_text(
        "def test_it(record_property):\n    record_property('moments', 1200)\n    assert True\n",
        "utf-8",
    )
    part = Part("tests", "counted", (str(test), "--rootdir", str(tmp_path), "-c", str(strict)))
    state = State.load(tmp_path / "stress.json", resume=False)
    run_parts([part], state, until=_never(), jobs=1)
    assert state.results["counted"].counts == {"tests passed": 1, "moments": 1200}
    assert "1 tests passed, 1,200 moments" in summary(state, 0)


def test_the_hunt_has_every_seed_rule_and_marked_test():
    hunt = parts()
    assert len({part.name for part in hunt}) == len(hunt)
    seeds = [part for part in hunt if part.group == "generated histories"]
    assert f"seeds {SEEDS - 1000} to {SEEDS - 1}" in seeds[-1].name
    alone = {part.name for part in hunt if part.alone}
    assert "tests/workers/test_random_kills.py" in alone
    assert "tests/engine/faults/test_kill_sweep.py" in {part.name for part in hunt} - alone
    assert any(part.name.startswith("rules 0 to ") for part in hunt)
