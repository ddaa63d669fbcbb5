"""The long hunt, part by part: `python -m tests.stress [--resume] [--minutes 90] [--only TEXT]`.

12,000 generated histories, every test that is marked `stress`, 500 examples of every property, and
every rule broken once. What has
been done is kept in `var/stress.json` after each part: with `--resume` parts that passed are not done
again, and the hunt goes on with the seeds and rules that are left. In the end, or when its minutes
are over, it prints a summary for docs/proof.md.

It ends with 1 if a part failed, with 3 if parts are left.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.stateful.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "var" / "stress.json"
SEEDS, SEEDS_OF_A_PART = 12_000, 1_000
RULES_OF_A_PART = 4
_LARGER = re.compile(r"from tests\.shares import .*\b(Run|pairs|share)\b")
_HERE = "not e2e and not interop and not s3"
_PASSED, _FAILED = "passed", "failed"
# the older form of the report holds what tests record of themselves; the newer one warns of it
_QUIET = ("-n", "0", "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1")


@dataclass(frozen=True)
class Part:
    """A command of the hunt: what it belongs to, and whether it has the machine to itself."""

    group: str
    name: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    alone: bool = False
    is_pytest: bool = True


@dataclass
class Result:
    """What became of a part."""

    group: str
    name: str
    status: str
    began: str
    seconds: float
    commit: str
    counts: dict[str, int] = field(default_factory=dict)
    output: str = ""


@dataclass
class State:
    """The results so far, by the names of parts, in a file."""

    path: Path
    results: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, *, resume: bool) -> "State":
        entries = json.loads(path.read_text("utf-8")) if resume and path.is_file() else []
        return cls(path, {entry["name"]: Result(**entry) for entry in entries})

    def keep(self, result: Result) -> None:
        """Write a result down before anything else is begun."""
        self.results[result.name] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        rows = [asdict(entry) for entry in self.results.values()]
        scratch.write_text(json.dumps(rows, indent=1), "utf-8")
        scratch.replace(self.path)

    def has_passed(self, part: Part) -> bool:
        result = self.results.get(part.name)
        return result is not None and result.status == _PASSED


def parts() -> list[Part]:
    """The whole hunt."""
    return [*_histories(), *_list_marked(), *_properties(), *_rules()]


def _histories() -> Iterable[Part]:
    for first in range(0, SEEDS, SEEDS_OF_A_PART):
        name = f"histories of seeds {first} to {first + SEEDS_OF_A_PART - 1}"
        environment = ("HISTORIES", str(SEEDS_OF_A_PART)), ("FIRST_HISTORY", str(first))
        arguments = ("tests/stateful/test_histories.py", "-k", "test_every_history or test_long")
        yield Part("generated histories", name, arguments, environment)


def _list_marked() -> Iterable[Part]:
    """The files of tests marked `stress`; whole where tests loop over more cases in a hunt."""
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        text = path.read_text("utf-8")
        is_larger = _LARGER.search(text) is not None
        if is_larger or "mark.stress" in text or "one_in(" in text:
            name = path.relative_to(ROOT).as_posix()
            alone = any(word in text for word in ("spark", "start_worker", "STARVE_SECONDS"))
            marks = _HERE if is_larger else "stress"
            yield Part(f"`{name}`", name, (name, "-m", marks), alone=alone)


def _properties() -> Iterable[Part]:
    """The files of properties, with hundreds of examples where `make test` draws twenty."""
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        text = path.read_text("utf-8")
        if "@given(" in text and "tests/lakeui/api" not in path.as_posix():
            name = path.relative_to(ROOT).as_posix()
            arguments = (name, "-m", "hypothesis and not stress", "-o", "timeout=3600")
            environment = (("HYPOTHESIS_PROFILE", "stress"),)
            yield Part(
                "properties", f"properties of {name}", arguments, environment, alone="spark" in text
            )


def _rules() -> Iterable[Part]:
    module = "tests.stateful.prove_by_mutation"
    yield Part("rules broken", "no rule broken", (module, "--rules", "0", "0"), is_pytest=False)
    for start in range(0, len(MUTATIONS), RULES_OF_A_PART):
        end = min(start + RULES_OF_A_PART, len(MUTATIONS))
        arguments = (module, "--rules", str(start), str(end))
        name = f"rules {start} to {end - 1} broken"
        yield Part("rules broken", name, arguments, is_pytest=False)


def run_parts(hunt: Sequence[Part], state: State, *, until: float, jobs: int) -> list[Part]:
    """Run the parts that have not passed; those that are left when the time is over.

    Parts that need not be alone run beside one another, and come first.
    """
    commit = _commit()
    left: list[Part] = []

    def run_one(part: Part) -> None:
        if time.monotonic() >= until:
            left.append(part)
            return
        result = _run(part, commit)
        state.keep(result)
        _say(f"{result.status:7} {result.seconds:6.0f} s  {part.name}")

    waiting = [part for part in hunt if not state.has_passed(part)]
    _side_by_side([part for part in waiting if not part.alone], run_one, jobs)
    for part in waiting:
        if part.alone:
            run_one(part)
    return left


def _side_by_side(chosen: Sequence[Part], act: Callable[[Part], None], jobs: int) -> None:
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(act, chosen))


def _run(part: Part, commit: str) -> Result:
    began, clock = datetime.now(UTC), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        pytest = ("pytest", *_QUIET, f"--junitxml={report}") if part.is_pytest else ()
        command = (sys.executable, "-m", *pytest, *part.arguments)
        outcome = subprocess.run(  # noqa: S603 - this interpreter, on this repository
            command,
            cwd=ROOT,
            env={**os.environ, **dict(part.environment)},
            capture_output=True,
            text=True,
            check=False,
        )
        counts = _counts(report) if part.is_pytest else _rule_counts(outcome.stdout)
    status = _PASSED if outcome.returncode == 0 else _FAILED
    output = "" if status == _PASSED and part.is_pytest else outcome.stdout[-20_000:]
    seconds = round(time.monotonic() - clock, 1)
    at = began.isoformat(timespec="seconds")
    return Result(part.group, part.name, status, at, seconds, commit, counts, output)


def _counts(report: Path) -> dict[str, int]:
    """Tests by outcome, and what they say they did."""
    counts: Counter[str] = Counter()
    if not report.is_file():
        return {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        counts[kinds.pop() if kinds else "tests passed"] += 1
        for told in case.iter("property"):
            counts[told.get("name", "")] += int(told.get("value", "0"))
    return dict(counts)


def _rule_counts(output: str) -> dict[str, int]:
    rules = [line for line in output.splitlines() if line.startswith("| ")]
    survived = sum("**survives**" in line for line in rules)
    return {"rules noticed": len(rules) - survived, "rules that survive": survived}


def summary(state: State, left: int) -> str:
    """What was done, for docs/proof.md: a line for each group."""
    groups: dict[str, list[Result]] = {}
    for result in state.results.values():
        groups.setdefault(result.group, []).append(result)
    moments = sorted(result.began for result in state.results.values())
    commits = sorted({result.commit for result in state.results.values()})
    hours = sum(result.seconds for result in state.results.values()) / 3600
    lines = [
        f"{moments[0][:10]} to {moments[-1][:10]} (UTC), {hours:.1f} hours of parts, at"
        f" {', '.join(commits)}; {left or 'no'} parts are left."
        if moments
        else "Nothing was run.",
        "",
        "| what | parts | failed | minutes | counts |",
        "|---|---|---|---|---|",
    ]
    for group, results in groups.items():
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        told = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
        failed = sum(result.status == _FAILED for result in results)
        minutes = sum(result.seconds for result in results) / 60
        lines.append(f"| {group} | {len(results)} | {failed} | {minutes:.0f} | {told} |")
    return "\n".join(lines)


def main() -> int:
    """As a command."""
    options = _options()
    state = State.load(STATE, resume=options.resume)
    until = time.monotonic() + options.minutes * 60
    hunt = [part for part in parts() if options.only in part.name]
    left = run_parts(hunt, state, until=until, jobs=options.jobs)
    _say(f"\n{summary(state, len(left))}")
    failed = [result for result in state.results.values() if result.status == _FAILED]
    for failure in failed:
        _say(f"\n{failure.name} failed:\n{failure.output[-4000:]}")
    return 1 if failed else 3 if left else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resume", action="store_true", help="go on where the last run ended")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no part after so long")
    parser.add_argument("--jobs", type=int, default=2, help="parts side by side, where they can be")
    parser.add_argument("--only", default="", help="parts whose name holds this text")
    return parser.parse_args()


def _commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or "a copy without history"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
