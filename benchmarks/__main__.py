"""Every measurement, written to `benchmarks/results.md`; or one, by its name or number, shown alone."""

import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    commits,
    compaction,
    deletion,
    frames,
    history,
    large_changes,
    open_table,
    reads,
    small_statements,
    worker_jobs,
)
from benchmarks.measuring import HEAD, Comparison, show

_MEASUREMENTS: dict[str, Callable[[], list[Comparison]]] = {
    "Small statements and concurrent writers": small_statements.measure,
    "PySpark programs": frames.measure,
    "Batch reads": reads.measure,
    "Large changes": large_changes.measure,
    "Opening": open_table.measure,
    "History": history.measure,
    "Committing": commits.measure,
    "Compaction": compaction.measure,
    "Deletion": deletion.measure,
    "Workers": worker_jobs.measure,
}
_NUMBERS = {
    "B1": "Opening",
    "B2": "Opening",
    "B4": "Committing",
    "B5": "Small statements and concurrent writers",
    "B7": "Large changes",
    "B8": "Large changes",
    "B12": "Small statements and concurrent writers",
    "B13": "Compaction",
    "B15": "Batch reads",
    "B16": "Workers",
}
_RESULTS = Path(__file__).with_name("results.md")
_INTRODUCTION = """# Measurements

Written by `make bench`: this engine and another way, side by side in one run on one machine. A ratio
above 1 is in this engine's favour. Absolute numbers are of this machine, on the day; ratios are what
to compare. Nothing in the tests depends on time.

{machine}
"""


def main() -> None:
    """Measure, show, write; what is named in the arguments is shown alone."""
    if len(sys.argv) > 1:
        show(_named(" ".join(sys.argv[1:]))())
        return
    parts = [_INTRODUCTION.format(machine=_machine())]
    for title, measure in _MEASUREMENTS.items():
        sys.stdout.write(f"{title} …\n")
        sys.stdout.flush()
        parts.append(
            "\n".join([f"## {title}\n", HEAD, *(result.row() for result in measure()), ""])
        )
    text = "\n".join(parts) + _kept()
    _RESULTS.write_text(text, "utf-8")
    sys.stdout.write(text)


def _named(name: str) -> Callable[[], list[Comparison]]:
    title = _NUMBERS.get(name.upper(), name)
    for known, measure in _MEASUREMENTS.items():
        module = measure.__module__.rpartition(".")[2]
        if title.lower() in {known.lower(), module}:
            return measure
    names = ", ".join([*_NUMBERS, *_MEASUREMENTS])
    sys.exit(f"No measurement is called {name}: there are {names}.")


def _kept() -> str:
    """The part that `make bench-pages` writes."""
    before = _RESULTS.read_text("utf-8") if _RESULTS.is_file() else ""
    _, title, rest = before.partition("## The dashboard\n")
    return f"\n{title}{rest}" if title else ""


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "deltalake"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {memory:.0f} GiB of memory, "
        f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}, {libraries}."
    )


if __name__ == "__main__":
    main()
