"""Deletes one rule of conflict detection at a time, and shows that the tests notice.

Each mutation is a change of text in a copy of the engine. It is caught if the fast tests of the
checks fail, or else if a generated history ends in rows that no allowed order explains.

    python -m tests.stateful.prove_by_mutation [--seeds 1500] [--only WORD]

It ends with 1 if a mutation survives, with 2 if the tests fail with nothing mutated.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAST = [
    "tests/engine/conflicts/test_checks.py",
    "tests/engine/conflicts/test_row_map.py",
    "tests/engine/transaction/test_row_level.py",
    "tests/engine/transaction/test_commit.py",
    "tests/stateful/test_named_histories.py",
]


@dataclass(frozen=True)
class Mutation:
    """A rule, the file that holds it, and the text that goes and comes."""

    rule: str
    path: str
    old: str
    new: str


PAIRS, MOVES = "conflicts/row_pairs.py", "conflicts/row_moves.py"
MAPS, REBASE = "conflicts/row_map.py", "conflicts/rebase.py"
MUTATIONS = (
    Mutation(
        "two writes may change the same row",
        PAIRS,
        "met = taken.gone & changed or _read_among(current, taken, rows)",
        "met = _read_among(current, taken, rows)",
    ),
    Mutation(
        "the union leaves the winner's deletions out",
        PAIRS,
        "vector = rows.vector(latest.deletion_vector) | changed",
        "vector = rows.vector(remove.deletion_vector) | changed",
    ),
    Mutation(
        "new rows of the winner are not tested",
        PAIRS,
        "    matched = union(rows.selected(read, add, new) for read in reads)",
        "    matched = NO_ROWS",
    ),
    Mutation(
        "removed rows that were only read do not count",
        PAIRS,
        "reads = [each for each in current.reads if not each.every_match_changes]",
        "reads = []",
    ),
    Mutation(
        "rows that RESTORE brought back are not new",
        PAIRS,
        "return after - before, before - after",
        "return after - before, NO_ROWS",
    ),
    Mutation(
        "removing a whole file changes none of its rows",
        PAIRS,
        "return all_rows(rows.row_count(ours.remove)) - base",
        "return NO_ROWS",
    ),
    Mutation(
        "a second winner forgets what the first one left",
        PAIRS,
        "    staged = rows.vector(ours.add.deletion_vector) if staged is None else staged\n",
        "    staged = rows.vector(ours.add.deletion_vector)\n",
    ),
    Mutation(
        "a row map counts the vector that the remove names",
        MAPS,
        "segments[remove.path] = (_segment(info, rows),)",
        "segments[remove.path] = (_segment(CompactionInfo(target=info.target, offset=info.offset,"
        " row_count=info.row_count, deletion_vector=remove.deletion_vector), rows),)",
    ),
    Mutation(
        "sources need not tile their target",
        MAPS,
        "if info.offset < reached or counted not in (None, info.row_count) or info.live_count < 0:",
        "if info.offset < 0:",
    ),
    Mutation(
        "gaps between sources may hold live rows",
        MAPS,
        "return not gaps or gaps <= rows.vector(target.deletion_vector)",
        "return True",
    ),
    Mutation(
        "row ids need not be the same on both sides",
        MAPS,
        "    if not np.array_equal(np.sort(ids), new_ids[order]) or len(np.unique(ids)) != len(ids):\n"
        "        return None\n",
        "    if not len(new_ids):\n        return None\n    new_ids = np.arange(len(new_ids))\n"
        "    ids = np.arange(len(ids)) % len(new_ids)\n    order = np.argsort(new_ids)\n",
    ),
    Mutation(
        "OPTIMIZE keeps rows that a winner removed",
        MOVES,
        "        _gather(masked, carried)\n",
        "",
    ),
    Mutation(
        "OPTIMIZE loses rows that a winner brought back",
        MOVES,
        "carried = None if brought_back else own_map.carry(theirs.path, gone)",
        "carried = own_map.carry(theirs.path, gone)",
    ),
    Mutation(
        "current does not follow the rows it changes",
        MOVES,
        "        _gather(arrivals, carried)\n",
        "",
    ),
    Mutation(
        "files that rows moved to are not read",
        REBASE,
        "return paths.union(*(moved[path] for path in paths & moved.keys()))",
        "return paths",
    ),
    Mutation(
        "a rebased remove names the old vector",
        REBASE,
        "        deletion_vector=latest.deletion_vector,\n        base_row_id=latest.base_row_id,",
        "        base_row_id=latest.base_row_id,",
    ),
    Mutation(
        "an append stays exempt whoever read it",
        "conflicts/candidates.py",
        "return read_version is None or read_version >= append.version",
        "return False",
    ),
    Mutation(
        "appends are exempt at Serializable",
        "conflicts/candidates.py",
        "return relaxed and winner.is_blind_append",
        "return winner.is_blind_append",
    ),
    Mutation(
        "isBlindAppend is believed of anyone",
        "conflicts/transaction_info.py",
        "return self.info.is_blind_append is True and adds_files_only(self.actions)",
        "return self.info.is_blind_append is not False",
    ),
    Mutation(
        "DELETE is not validated",
        "conflicts/candidates.py",
        "    if current.level is IsolationLevel.SNAPSHOT or current.reads_nothing:",
        "    if current.operation == 'DELETE' or current.level is IsolationLevel.SNAPSHOT"
        " or current.reads_nothing:",
    ),
    Mutation(
        "everything runs at snapshot isolation",
        "conflicts/isolation.py",
        "return IsolationLevel.SNAPSHOT if rearranges else of_table",
        "return IsolationLevel.SNAPSHOT",
    ),
    Mutation(
        "RESTORE is checked like any write",
        "conflicts/transaction_info.py",
        "return self.operation in STATE_REPLACING_OPERATIONS",
        "return False",
    ),
    Mutation(
        "only the last winner is checked",
        "transaction/committer.py",
        "passed = validate(contender, WinningCommit.of(commit), self.rows)",
        "last = self.store.stat(commit_path(commit.version + 1)) is None\n"
        "            passed = validate(contender, WinningCommit.of(commit), self.rows)"
        " if last else contender.past(WinningCommit.of(commit))",
    ),
    Mutation(
        "nobody recognises himself",
        "transaction/self_recognition.py",
        "return commit.commit_info is not None and commit.commit_info.txn_id == txn_id",
        "return False",
    ),
    Mutation(
        "in-commit timestamps follow the clock alone",
        "transaction/reconciliation.py",
        "return max(now_ms, contender.timestamp_ms + 1)",
        "return now_ms",
    ),
    Mutation(
        "fresh row ids begin where they began when the transaction read",
        "transaction/contender.py",
        "row_id_high_water_mark=max(\n                self.row_id_high_water_mark, high_water_mark(winner.domains)\n            ),",
        "row_id_high_water_mark=self.row_id_high_water_mark,",
    ),
    Mutation(
        "a cleaned log goes unnoticed",
        "transaction/standing.py",
        "    if newest <= version:\n        return None\n",
        "    if newest >= -1:\n        return None\n",
    ),
    Mutation(
        "a file staged again need not be there",
        "transaction/readded.py",
        "return frozenset((added & live.keys()) - removed)",
        "return frozenset()",
    ),
)


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
        hunt = _run(copy, "-m", "tests.stateful.hunt", "0", str(seeds))
        if hunt.returncode:
            return f"a history: {hunt.stdout.strip() or 'ends in an error'}"
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
