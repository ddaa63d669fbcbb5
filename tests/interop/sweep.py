"""The sweep: turns of two engines at the same tables, one JVM at a time.

Four phases: this engine, delta-spark, this engine, delta-spark. In each, every table whose turn it is
gets its statements, and every table that exists is read before and after them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.cases import CASES
from tests.interop.fetch import DeltaSpark
from tests.interop.rows import first_difference
from tests.interop.turns import DELTA, ENGINE, Case

_ROOT = Path(__file__).resolve().parents[2]
_PHASES = (ENGINE, DELTA, ENGINE, DELTA)
_PHASE_TIMEOUT_S = 1500


@dataclass(frozen=True)
class Turn:
    """One side's reads and statements in one phase of a case; `answer` is its response."""

    phase: int
    side: str
    answer: dict[str, Any]

    @property
    def rows(self) -> list[str] | None:
        """Return the rows read at the end; None if that failed."""
        return self.answer["after"].get("ok")

    @property
    def errors(self) -> list[str]:
        """Return every statement that failed, with its error."""
        return [
            f"{step['statement'][:80]} → {step['error']}"
            for step in self.answer["steps"]
            if "error" in step
        ]


@dataclass
class Story:
    """All turns of a case."""

    case: Case
    turns: list[Turn] = field(default_factory=list)

    def disagreements(self) -> list[str]:
        """Return the turns in which a side could not read, or read other rows than the side before it."""
        gaps = []
        for earlier, later in zip(self.turns, self.turns[1:], strict=False):
            before = later.answer["before"]
            if "error" in before:
                gaps.append(f"{later.side} cannot read: {before['error']}")
            elif earlier.rows is not None and (gap := first_difference(earlier.rows, before["ok"])):
                gaps.append(f"{earlier.side} and {later.side} read differently: {gap}")
        return gaps + [
            f"{turn.side} cannot read: {turn.answer['after']['error']}"
            for turn in self.turns
            if "error" in turn.answer["after"]
        ]

    def errors(self, side: str) -> list[str]:
        """Return the statements that failed on a side."""
        return [error for turn in self.turns if turn.side == side for error in turn.errors]

    def find_unexpected(self, side: str) -> list[str]:
        """Return the failures that the case does not expect."""
        expected = self.case.refused.get(side)
        return [error for error in self.errors(side) if expected is None or expected not in error]

    def faults(self) -> list[str]:
        """Return the disagreements, except refusals to read that the case expects."""
        words = self.case.unreadable
        return [
            disagreement
            for disagreement in self.disagreements()
            if not words or words not in disagreement
        ]

    def readers(self) -> dict[str, list[str]]:
        """Return other readers' results: "" if they read the same as this engine, else the difference."""
        gaps: dict[str, list[str]] = {}
        for turn in self.turns:
            for name, outcome in turn.answer.get("readers", {}).items():
                gap = outcome.get("error") or first_difference(
                    turn.rows or [], outcome.get("ok", [])
                )
                gaps.setdefault(name, []).extend([gap] if gap else [])
        return gaps

    def answers(self, query: str) -> list[Any]:
        """Return delta-spark's answers to a question, turn by turn."""
        return [turn.answer["answers"][query] for turn in self.turns if turn.side == DELTA]


@dataclass(frozen=True)
class Sweep:
    """The stories by case, and the versions of both sides."""

    stories: dict[str, Story]
    versions: dict[str, str]


def run_sweep(peer: DeltaSpark, cases: Sequence[Case] = CASES, home: Path | None = None) -> Sweep:
    """Run every case, in a scratch directory or in `home`, where the tables remain."""
    scratch = home or Path(tempfile.mkdtemp(prefix="interop-"))
    stories = {case.name: Story(case) for case in cases}
    left = {case.name: list(case.steps) for case in cases}
    versions: dict[str, str] = {}
    try:
        for phase, side in enumerate(_PHASES, 1):
            requests = [
                request
                for case in cases
                if (request := _request(stories[case.name], left[case.name], side, scratch))
            ]
            command = commands(peer, scratch)[side]
            greeting, answers = converse(command, requests, scratch / f"phase-{phase}.log")
            versions.update(greeting)
            for answer in answers:
                stories[answer["case"]].turns.append(Turn(phase, side, answer))
    finally:
        if home is None:
            shutil.rmtree(scratch, ignore_errors=True)
    versions["delta-spark"] = peer.delta_version
    return Sweep(stories, versions)


def _request(story: Story, left: list[Any], side: str, scratch: Path) -> dict[str, Any] | None:
    mine = bool(left) and left[0].side == side
    if not mine and not story.turns:
        return None
    step = left.pop(0) if mine else None
    return {
        "case": story.case.name,
        "table": str(scratch / story.case.name),
        "read_before": bool(story.turns),
        "statements": list(step.statements) if step else [],
        "queries": dict(story.case.queries) if side == DELTA else {},
    }


def commands(peer: DeltaSpark, scratch: Path) -> dict[str, list[str]]:
    return {
        ENGINE: [sys.executable, "-m", "tests.interop.engine_side"],
        DELTA: [
            str(peer.python),
            "-m",
            "tests.interop.delta_side",
            str(peer.jars),
            str(scratch / "delta-spark"),
        ],
    }


def converse(
    command: list[str], requests: Iterable[dict[str, Any]], log: Path
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Run a whole phase: send all requests, return all answers."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(_ROOT),
        "TZ": "UTC",
        "PYSPARK_PYTHON": command[0],
        "PYSPARK_DRIVER_PYTHON": command[0],
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(request) + "\n" for request in requests)
    with log.open("w", encoding="utf-8") as errors:
        outcome = subprocess.run(  # noqa: S603 - the two sides of this package
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=_ROOT,
            timeout=_PHASE_TIMEOUT_S,
            check=False,
        )
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    if outcome.returncode or not lines:
        msg = f"{command[2]} ended with {outcome.returncode}:\n{log.read_text('utf-8')[-3000:]}"
        raise RuntimeError(msg)
    return lines[0], lines[1:]
