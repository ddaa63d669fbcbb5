"""Side by side in one run: how long two ways of doing a thing take, and their ratio."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Comparison:
    """One line of the results. `unit` is of both numbers; the ratio is the other's over ours.

    Where `more_is_better` (a rate) it is ours over the other's, so that above 1 is always in favor
    of this engine.
    """

    what: str
    ours: float
    other_name: str
    other: float
    unit: str
    more_is_better: bool = False

    @property
    def ratio(self) -> float:
        """Above 1: this engine needs less, or does more."""
        over, under = (self.ours, self.other) if self.more_is_better else (self.other, self.ours)
        return over / under if under else float("inf")

    def row(self) -> str:
        """Return a row of a Markdown table."""
        ours, other = (
            f"{value:,.{_digits(value)}f} {self.unit}" if self.unit else f"{value:,.0f}"
            for value in (self.ours, self.other)
        )
        return f"| {self.what} | {ours} | {self.other_name}: {other} | **{self.ratio:.2f}** |"


HEAD = "| what | this engine | the other | ratio |\n|---|---:|---:|---:|"


def side_by_side(
    ours: Callable[[], Any], other: Callable[[], Any], times: int = 3
) -> tuple[float, float]:
    """Return the shortest of several runs of each, in seconds; the runs alternate."""
    pairs = [(seconds(ours), seconds(other)) for _ in range(times)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def seconds(action: Callable[[], Any]) -> float:
    """How long one run takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run_in_process(module: str, *arguments: str) -> dict[str, float]:
    """Return the report of `report_usage` in a fresh process of a module here: seconds and MB."""
    command = [sys.executable, "-m", module, *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)  # noqa: S603 - ourselves
    measured: dict[str, float] = json.loads(outcome.stdout.splitlines()[-1])
    return measured


def report_usage(action: Callable[[], Any], beside: Callable[[], float] | None = None) -> None:
    """Run once; write the time it took and by how much the process's peak memory grew.

    `beside` tells the MB of another process that count with it.
    """
    before = peak_megabytes()
    began = time.perf_counter()
    kept = action()
    spent = time.perf_counter() - began
    megabytes = peak_megabytes() - before + (beside() if beside else 0.0)
    sys.stdout.write(json.dumps({"seconds": spent, "megabytes": megabytes}) + "\n")
    del kept


def show(comparisons: Iterable[Comparison]) -> None:
    """Write a table to standard output."""
    sys.stdout.write("\n".join([HEAD, *(comparison.row() for comparison in comparisons)]) + "\n")


def peak_megabytes(process: int | str = "self") -> float:
    """Return a process's peak resident memory in MiB; getrusage would include its parent's."""
    status = Path(f"/proc/{process}/status")
    if status.is_file():
        line = next(
            text for text in status.read_text("ascii").splitlines() if text.startswith("VmHWM")
        )
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _digits(value: float) -> int:
    return 0 if value >= 100 else 2 if value >= 1 else 3
