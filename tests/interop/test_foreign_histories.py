"""Generated histories in which delta-spark commits between this engine's reads and its commits."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.table import DeltaTable
from tests.interop.fetch import DeltaSpark, OutOfReachError, fetch_delta_spark
from tests.stateful import commands as c
from tests.stateful.foreign import foreign_history
from tests.stateful.history import Setup, play
from tests.stateful.judge import check
from tests.stateful.spark_statements import render_statement

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

COUNT = 60
_ROOT = Path(__file__).resolve().parents[2]


class DeltaSparkEngine:
    """delta-spark in a separate process, for any table."""

    def __init__(self, peer: DeltaSpark, scratch: Path) -> None:
        self.refused: Counter[str] = Counter()
        environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "TZ": "UTC",
            "PYSPARK_PYTHON": str(peer.python),
            "PYSPARK_DRIVER_PYTHON": str(peer.python),
        }
        self._log = (scratch / "delta-spark.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [str(peer.python), "-m", "tests.interop.delta_writer", str(peer.jars), str(scratch)],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._answer()

    def can(self, setup: Setup) -> bool:  # noqa: ARG002 - any
        """Return True: delta-spark writes tables of every kind."""
        return True

    def do(self, command: c.Command, place: str, extra: str | None) -> None:  # noqa: ARG002
        """Run a command on a table; a refused command changes nothing."""
        if isinstance(command, c.Truncate):  # which delta-spark has for tables of a catalog alone
            statement = f"DELETE FROM delta.`{place}`"  # noqa: S608 - a table of this test
        else:
            written = render_statement(command, DeltaTable.open(place).snapshot())
            statement = replace(written, table=place).statement()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        error = self._answer().get("error")
        if error is not None:
            self.refused[error[:300]] += 1

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._log.close()

    def _answer(self) -> dict[str, str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"delta-spark ended: {self._log.name}"
        return json.loads(line)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSparkEngine]:
    try:
        peer = fetch_delta_spark()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    engine = DeltaSparkEngine(peer, tmp_path_factory.mktemp("delta-spark"))
    yield engine
    engine.close()


def test_histories_with_commits_of_delta_spark_have_an_order_that_their_level_allows(
    elsewhere: DeltaSparkEngine, tmp_path: Path
):
    landed: Counter[str] = Counter()
    lost_to_it = 0
    for seed in range(COUNT):
        history = foreign_history(seed, elsewhere)
        try:
            played = play(history, str(tmp_path / str(seed)))
            check(played)
        except Exception as error:
            steps = "\n".join(map(str, history.steps))
            what = f"seed {seed}: {history.setup}\n{steps}"
            raise AssertionError(what) from error
        foreign = played.scene.foreign
        landed.update(type(command).__name__ for command in foreign.values())
        winners = [getattr(error, "conflict", None) for error in played.aborted.values()]
        lost_to_it += sum(
            winner is not None and winner.winner.version in foreign for winner in winners
        )
    assert {"Append", "Delete", "Update", "Merge", "Optimize"} <= set(landed), elsewhere.refused
    assert lost_to_it >= COUNT // 10
    assert sum(elsewhere.refused.values()) < sum(landed.values()) // 4, elsewhere.refused
