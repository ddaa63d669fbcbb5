"""Generated histories of statements without Spark: sound, and with the same outcome as the model's.

The real operations run in threads, without a session, under all checks of `test_histories.py`.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ConflictError
from tests.shares import one_in
from tests.stateful import commands as c
from tests.stateful.arrow_engine import state_of
from tests.stateful.generator import generate
from tests.stateful.history import History, Played, Step, forget, play
from tests.stateful.judge import check
from tests.stateful.spark_engine import play_on_spark
from tests.stateful.spark_histories import align_executors, outcome

SEEDS = int(os.environ.get("IN_PROCESS_HISTORIES", "60"))
NEEDS_SPARK = c.Optimize | c.Reorg | c.InsertSelect | c.ReplaceWhere | c.Overwrite | c.Restore


@pytest.mark.parametrize("seed", one_in(2, range(SEEDS)))
def test_a_history_without_spark_ends_as_the_model_says(seed: int, tmp_path: Path):
    history = _small(align_executors(generate(seed, most=8)))
    modeled, played = play(history), play_on_spark(history, None, str(tmp_path / "t"))
    check(played)
    if history.setup.vectors:  # without them files decide, and each writes others
        assert _list_landed(played) == _list_landed(modeled)
        assert state_of(played.table.snapshot()) == state_of(modeled.table.snapshot())
    forget(modeled)


@pytest.mark.parametrize("seed", range(SEEDS // 6))
def test_losers_that_begin_again_land(seed: int, tmp_path: Path):
    """The order is allowed at the level; a retry reuses nothing that the first attempt found."""
    history = _small(align_executors(generate(seed, most=8)))
    played = play_on_spark(history, None, str(tmp_path / "t"), retries=5)
    check(played)
    assert not [error for error in played.aborted.values() if isinstance(error, ConflictError)]


def _list_landed(played: Played) -> dict[int, str]:
    """Return the versions of the winners; a loser's exception depends on the files' layout."""
    return {number: end for number, end in outcome(played).items() if end.startswith("landed")}


def _small(history: History) -> History:
    return History(history.setup, tuple(_step(step) for step in history.steps))


def _step(step: Step) -> Step:
    command = step.opens
    if isinstance(command, NEEDS_SPARK):
        command = c.Update(command.number, c.Range(0, 4), command.number % 8, promise=True)
    return replace(step, opens=command)
