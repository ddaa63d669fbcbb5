"""delta-spark and Sail, each in a process of its own that waits for its turn, so that load meets all engines."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any

from benchmarks.measuring import Comparison, seconds
from tests.interop.fetch import OutOfReachError, fetch_delta_spark, fetch_sail

REPETITIONS, WARM_UP = 5, 2


@dataclass(frozen=True)
class Peer:
    """The other end of two pipes."""

    questions: IO[str]
    answers: IO[str]

    def ask(self, **question: object) -> dict[str, Any]:
        """Have it do something: its seconds as `took`, and the rows of the last statement."""
        self.questions.write(json.dumps(question) + "\n")
        self.questions.flush()
        for line in self.answers:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        msg = "the other engine ended"
        raise RuntimeError(msg)


@contextmanager
def delta_spark(scratch: Path) -> Iterator[Peer]:
    """Start a warm session.

    Raises:
        OutOfReachError: delta-spark cannot be had here.
    """
    peer = fetch_delta_spark()
    scratch.mkdir(parents=True, exist_ok=True)
    script = str(Path(__file__).with_name("delta_spark_peer.py"))
    with _start_peer(
        [str(peer.python), script, "turns", str(peer.jars), str(scratch), "{}"]
    ) as there:
        yield there


@contextmanager
def sail() -> Iterator[Peer]:
    """Start a warm session of Sail's Spark Connect server, which changes existing tables.

    Raises:
        OutOfReachError: Sail cannot be had here.
    """
    script = str(Path(__file__).with_name("sail_peer.py"))
    with _start_peer([str(fetch_sail()), script, "turns", "{}"]) as there:
        yield there


def peers(
    stack: ExitStack, scratch: Path, names: Sequence[str] = ("delta-spark", "Sail")
) -> dict[str, Peer]:
    """Those that can be had here, by name; what is left out is said."""
    ways = {"delta-spark": lambda: delta_spark(scratch / "peer"), "Sail": sail}
    found: dict[str, Peer] = {}
    for name in names:
        try:
            found[name] = stack.enter_context(ways[name]())
        except OutOfReachError as reason:
            sys.stderr.write(f"{name} is left out: {reason}\n")
    return found


@contextmanager
def _start_peer(command: list[str]) -> Iterator[Peer]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    try:
        yield Peer(process.stdin, process.stdout)
        process.stdin.close()
        process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def take_turns(
    ways: Mapping[str, Callable[[], float]],
    repetitions: int = REPETITIONS,
    warm_up: int = WARM_UP,
) -> dict[str, list[float]]:
    """Seconds of each way, each time after the others; the first times are left out."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(warm_up + repetitions):
        for name, way in ways.items():
            took = way()
            if turn >= warm_up:
                times[name].append(took)
    return times


def time_action(action: Callable[[], object]) -> Callable[[], float]:
    """Return a function that times an action in this process."""
    return lambda: seconds(action)


def compare_medians(
    what: str, times: Mapping[str, Sequence[float]], others: Sequence[str]
) -> list[Comparison]:
    """Medians of `engine` beside each other, and between which times they lie."""
    ours = times["engine"]
    return [
        Comparison(
            f"{what} ({spread(ours)} and {spread(times[other])})",
            median(ours),
            other,
            median(times[other]),
            "s",
        )
        for other in others
        if other in times
    ]


def spread(times: Sequence[float]) -> str:
    """Render the shortest and the longest time."""
    return f"{min(times):.2f} to {max(times):.2f}"
