"""Every measurement, each written to its part of `results.md`; or some, by a name or number."""

import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    appends,
    commits,
    compaction,
    compaction_among_writers,
    deletion,
    frames,
    growth,
    history,
    hot_rows,
    large_changes,
    memory,
    merge_sources,
    mirroring,
    open_table,
    reads,
    rebase,
    small_statements,
    statement_sizes,
    vacuum,
    worker_jobs,
    writers,
)
from benchmarks.chart import draw
from benchmarks.measuring import HEAD, Comparison, show
from benchmarks.results_file import write_part

_MEASUREMENTS: dict[str, Callable[[], list[Comparison]]] = {
    "Small statements and concurrent writers": small_statements.measure,
    "Statements by size": statement_sizes.measure,
    "Concurrent writers": writers.measure,
    "PySpark programs": frames.measure,
    "Batch reads": reads.measure,
    "Large changes": large_changes.measure,
    "Merges": merge_sources.measure,
    "Opening": open_table.measure,
    "History": history.measure,
    "Committing": commits.measure,
    "Appends": appends.measure,
    "Compaction": compaction.measure,
    "Deletion": deletion.measure,
    "Workers": worker_jobs.measure,
    "Compaction among writers": compaction_among_writers.measure,
    "Hot rows": hot_rows.measure,
    "Rebase": rebase.measure,
    "Vacuum": vacuum.measure,
    "Mirroring": mirroring.measure,
    "Memory": memory.measure,
    "Growth": growth.measure,
}
_NUMBERS = {
    "B1": ["Opening"],
    "B2": ["Opening"],
    "B4": ["Committing", "Appends"],
    "B5": ["Small statements and concurrent writers", "Concurrent writers"],
    "B6": ["Compaction among writers"],
    "B7": ["Large changes"],
    "B8": ["Large changes", "Merges"],
    "B9": ["Vacuum"],
    "B10": ["Mirroring"],
    "B12": ["Small statements and concurrent writers", "Statements by size", "Workers"],
    "B13": ["Compaction"],
    "B14": ["Rebase"],
    "B15": ["Batch reads"],
    "B16": ["Workers"],
    "B17": ["Memory"],
    "B18": ["Growth"],
}
_PAGES = "B11 is measured by `make bench-pages`."
_USAGE = """python -m benchmarks [NAME] [--write]

NAME is a number, a part or its module; without it every part is measured and written to results.md.
What is named is shown alone, and written too with --write. The parts:
"""
_CHART = Path(__file__).parents[1] / "docs" / "benchmarks.svg"


def main() -> None:
    """Measure and write each part; the arguments select parts to show, and write with `--write`."""
    words = [word for word in sys.argv[1:] if word != "--write"]
    if {"-h", "--help"} & set(words):
        sys.stdout.write(f"{_USAGE}\n{_list_parts()}\n")
        return
    for title in _find_titles(" ".join(words)) if words else _MEASUREMENTS:
        sys.stdout.write(f"{_describe_part(title)} …\n")
        sys.stdout.flush()
        _measure(title, write=not words or "--write" in sys.argv)


def _measure(title: str, *, write: bool) -> None:
    results = _MEASUREMENTS[title]()
    show(results)
    if write:
        rows = [HEAD, *(result.row() for result in results)]
        write_part(title, "\n".join([f"{_machine()}\n", *rows]), list(_MEASUREMENTS))
        draw(_CHART)


def _find_titles(name: str) -> list[str]:
    """Return the parts of a scenario, or the part with this name or module."""
    if name.upper() == "B11":
        sys.exit(_PAGES)
    if name.upper() in _NUMBERS:
        return _NUMBERS[name.upper()]
    for title in _MEASUREMENTS:
        if name.lower() in {title.lower(), _module(title)}:
            return [title]
    sys.exit(f"No measurement is called {name}. There are:\n{_list_parts()}")


def _module(title: str) -> str:
    return _MEASUREMENTS[title].__module__.rpartition(".")[2]


def _describe_part(title: str) -> str:
    """Describe a part by its name, module and numbers."""
    numbers = [number for number, titles in _NUMBERS.items() if title in titles]
    return f"{title} ({', '.join([_module(title), *numbers])})"


def _list_parts() -> str:
    return "\n".join(f"  {_describe_part(title)}" for title in _MEASUREMENTS) + f"\n  {_PAGES}"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "deltalake"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {memory:.0f} GiB of memory, "
        f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}, {libraries}."
    )


if __name__ == "__main__":
    main()
