"""Mutation tests: break one rule at a time, of conflict detection and of the log, and expect a failure.

Each mutation replaces text in a copy of the engine. It is caught if a generated history ends in rows
that no allowed order explains, or if a handmade history or a fast test of the checks fails. A few
hundred seeds run first, the others last.

    python -m tests.stateful.prove_by_mutation [--seeds 1000] [--only WORD] [--rules FIRST LAST]

`--rules` runs the rules from FIRST to before LAST, without the initial run of the unchanged engine;
`--rules 0 0` runs only that. The exit code is 1 if a mutation survives, and 2 if the tests fail on
the unchanged engine.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.stateful.mutation import Mutation
from tests.stateful.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
FAST = [
    "tests/stateful/test_named_histories.py",
    "tests/stateful/test_adversaries.py",
    "tests/engine/conflicts/test_checks.py",
    "tests/engine/conflicts/test_eligibility.py",
    "tests/engine/conflicts/test_matrix.py",
    "tests/engine/conflicts/test_recorded_predicates.py",
    "tests/engine/conflicts/test_row_map.py",
    "tests/engine/transaction/test_row_level.py",
    "tests/engine/transaction/test_commit.py",
    "tests/engine/transaction/test_foreign_winners.py",
    "tests/stateful/test_histories_of_others.py",
    "tests/engine/log",
    "tests/engine/snapshot/test_change_feed.py",
    "tests/engine/snapshot/test_post_commit.py",
    "tests/engine/snapshot/test_snapshot.py",
    "tests/engine/transaction/test_replaced_tables.py",
    "tests/engine/transaction/test_staged_files_gone.py",
    "tests/engine/transaction/test_versions_that_come_late.py",
    "tests/engine/operations/test_vacuum_plan.py",
    "tests/engine/operations/test_vacuum_retention.py",
    "tests/engine/operations/test_maintenance.py",
]
_EARLY, _PATIENCE_S = 300, 1800
_LEFT_OUT = ("__pycache__", "lakeui", "workers", "e2e", "interop")


def main() -> int:
    """Try every mutation, or the requested ones; return 1 if one survives."""
    options = _options()
    if options.rules is None and not passes_unbroken(options.seeds):
        return 2
    first, last = options.rules or (0, len(MUTATIONS))
    survivors = 0
    for mutation in MUTATIONS[first:last]:
        if options.only not in mutation.rule:
            continue
        began = time.monotonic()
        caught = _find_witness(mutation, options.seeds)
        survivors += caught is None
        took = time.monotonic() - began
        _say(f"| {mutation.rule} | {caught or '**survives**'} | {took:.0f} s |")
    if first == last:
        return 0 if passes_unbroken(options.seeds) else 2
    return 1 if survivors else 0


def passes_unbroken(seeds: int) -> bool:
    """Return True if the tests pass on the unchanged engine, which every proof presupposes."""
    noticed = _find_witness(Mutation("nothing", "conflicts/decide/checker.py", "", ""), seeds)
    if noticed is not None:
        _say(f"The tests fail with nothing mutated: {noticed}.")
    return noticed is None


def _find_witness(mutation: Mutation, seeds: int) -> str | None:
    """Return the test that caught the mutation, or None."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for name in ("engine", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        changed = copy / "engine" / mutation.path
        text = changed.read_text("utf-8")
        if mutation.old and text.count(mutation.old) != 1:
            _say(
                f"{mutation.rule}: its text is in {mutation.path} {text.count(mutation.old)} times"
            )
            return None
        if mutation.old:
            changed.write_text(text.replace(mutation.old, mutation.new), "utf-8")
        early = min(_EARLY, seeds)
        return _hunt(copy, 0, early) or _run_tests(copy) or _hunt(copy, early, seeds)


def _hunt(copy: Path, first: int, last: int) -> str | None:
    hunt = _run(copy, "-m", "tests.stateful.hunt", str(first), str(last))
    return f"a history: {hunt.stdout.strip() or 'ends in an error'}" if hunt.returncode else None


def _run_tests(copy: Path) -> str | None:
    flags = ["-q", "-x", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(copy)]
    tests = _run(copy, "-m", "pytest", *flags, "--import-mode=importlib", *FAST)
    return _first_failure(tests.stdout) if tests.returncode else None


def _first_failure(output: str) -> str:
    line = next((text for text in output.splitlines() if text.startswith("FAILED")), "FAILED ?")
    return line.split(" - ")[0].rpartition("::")[2]


def _run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - this interpreter, on a copy of this repository
            [sys.executable, *arguments],
            cwd=place,
            env={"PYTHONPATH": str(place), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 1, "does not end")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="histories tried per mutation")
    parser.add_argument("--rules", type=int, nargs=2, metavar=("FIRST", "LAST"))
    parser.add_argument("--only", default="", help="mutations whose rule holds this text")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
