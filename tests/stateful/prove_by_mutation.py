"""Deletes one rule of conflict detection at a time, and shows that the tests notice.

Each mutation is a change of text in a copy of the engine. It is caught if a generated history ends
in rows that no allowed order explains, or if a history by hand or a fast test of the checks fails.
A few hundred seeds come first, the others last.

    python -m tests.stateful.prove_by_mutation [--seeds 1500] [--only WORD]

It ends with 1 if a mutation survives, with 2 if the tests fail with nothing mutated.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.stateful.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
FAST = [
    "tests/stateful/test_named_histories.py",
    "tests/stateful/test_adversaries.py",
    "tests/engine/conflicts/test_checks.py",
    "tests/engine/conflicts/test_eligibility.py",
    "tests/engine/conflicts/test_matrix.py",
    "tests/engine/conflicts/test_row_map.py",
    "tests/engine/transaction/test_row_level.py",
    "tests/engine/transaction/test_commit.py",
    "tests/engine/transaction/test_foreign_winners.py",
]
_EARLY = 300


def main() -> int:
    """Try every mutation; 1 if one survives."""
    options = _options()
    if _caught(Mutation("nothing", "conflicts/checker.py", "", ""), options.seeds) is not None:
        _say("The tests fail with nothing mutated: nothing can be shown.")
        return 2
    survivors = 0
    for mutation in MUTATIONS:
        if options.only not in mutation.rule:
            continue
        began = time.monotonic()
        caught = _caught(mutation, options.seeds)
        survivors += caught is None
        took = time.monotonic() - began
        _say(f"| {mutation.rule} | {caught or '**survives**'} | {took:.0f} s |")
    return 1 if survivors else 0


def _caught(mutation: Mutation, seeds: int) -> str | None:
    """What noticed the mutation, None if nothing did."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for name in ("engine", "tests"):
            ignored = shutil.ignore_patterns("__pycache__", "spark", "operations", "lakeui")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
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
        return _hunted(copy, 0, early) or _tested(copy) or _hunted(copy, early, seeds)


def _hunted(copy: Path, first: int, last: int) -> str | None:
    hunt = _run(copy, "-m", "tests.stateful.hunt", str(first), str(last))
    return f"a history: {hunt.stdout.strip() or 'ends in an error'}" if hunt.returncode else None


def _tested(copy: Path) -> str | None:
    flags = ["-q", "-x", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(copy)]
    tests = _run(copy, "-m", "pytest", *flags, "--import-mode=importlib", *FAST)
    return _first_failure(tests.stdout) if tests.returncode else None


def _first_failure(output: str) -> str:
    line = next((each for each in output.splitlines() if each.startswith("FAILED")), "FAILED ?")
    return line.split(" - ")[0].rpartition("::")[2]


def _run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - this interpreter, on a copy of this repository
        [sys.executable, *arguments],
        cwd=place,
        env={"PYTHONPATH": str(place), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1500, help="histories tried per mutation")
    parser.add_argument("--only", default="", help="mutations whose rule holds this text")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
