"""Generated histories of the statements that need no Spark: sound, and of the outcome of the model's.

The operations that people use run in threads, without a session; everything is held to what
`test_histories.py` holds its executor to.
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
    modelled, played = play(history), play_on_spark(history, None, str(tmp_path / "t"))
    check(played)
    if history.setup.vectors:  # without them files decide, and each writes others
        assert _list_landed(played) == _list_landed(modelled)
        assert state_of(played.table.snapshot()) == state_of(modelled.table.snapshot())
    forget(modelled)


@pytest.mark.parametrize("seed", range(SEEDS // 6))
def test_losers_that_begin_again_land(seed: int, tmp_path: Path):
    """In an order that the level allows; what a first attempt found is none of the next one's."""
    history = _small(align_executors(generate(seed, most=8)))
    played = play_on_spark(history, None, str(tmp_path / "t"), retries=5)
    check(played)
    assert not [error for error in played.aborted.values() if isinstance(error, ConflictError)]


def _list_landed(played: Played) -> dict[int, str]:
    """The place of what landed; which exception a loser got depends on how rows lie in files."""
    return {number: end for number, end in outcome(played).items() if end.startswith("landed")}


def _small(history: History) -> History:
    return History(history.setup, tuple(_step(step) for step in history.steps))


def _step(step: Step) -> Step:
    command = step.opens
    if isinstance(command, NEEDS_SPARK):
        command = c.Update(command.number, c.Range(0, 4), command.number % 8, promise=True)
    return replace(step, opens=command)
