"""Generated histories on Spark's commands: sound, and with the same outcome as on Arrow.

This makes the tens of thousands of histories on Arrow evidence for the real operations too.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.stateful import commands as c
from tests.stateful.arrow_engine import state_of
from tests.stateful.generator import generate
from tests.stateful.history import History, Setup, forget, play
from tests.stateful.judge import check
from tests.stateful.spark_engine import play_on_spark
from tests.stateful.spark_histories import EVERY_FILE, align_executors, outcome
from tests.stateful.stories import ROWS, story

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

MOST = 6
SOME = [34, 110]
MORE = [pytest.param(seed, marks=pytest.mark.stress) for seed in (76, 148, *range(200, 230))]


@pytest.mark.parametrize("seed", [*SOME, *MORE])
def test_spark_and_arrow_end_a_history_with_the_same_table(
    seed: int, spark: SparkSession, tmp_path: Path
):
    """Winners, losers with their exceptions, and the table agree."""
    _compare(align_executors(generate(seed, most=MOST)), spark, tmp_path)


def test_a_history_that_moves_rows_in_every_way_ends_alike(spark: SparkSession, tmp_path: Path):
    """A purge, a compaction and an ordering lie between the first commands' reads and their commits."""
    history = story(
        Setup(row_tracking=True, mapped=True),
        c.Append(1, ROWS),
        1,
        c.Delete(2, c.Range(0, 1), promise=True),
        2,
        c.Update(3, c.Range(1, 2), 7, promise=True),
        c.Merge(4, (2, 9), "shift", first=(1, "delete"), unmatched_below=1),
        c.Reorg(5),
        5,
        c.Append(6, (("b", None), ("b", 4))),
        6,
        c.Optimize(7, EVERY_FILE, sort=True),
        7,
        3,
        4,
        c.Alter(8, "rename"),
        c.Truncate(9),
        8,
        9,
    )
    _compare(history, spark, tmp_path)


def _compare(history: History, spark: SparkSession, tmp_path: Path) -> None:
    on_arrow, on_spark = play(history), play_on_spark(history, spark, str(tmp_path / "t"))
    check(on_spark)
    assert outcome(on_spark) == outcome(on_arrow)
    assert state_of(on_spark.table.snapshot()) == state_of(on_arrow.table.snapshot())
    forget(on_arrow)


@pytest.mark.parametrize("seed", [16, *MORE])
def test_histories_with_restore_are_sound_on_spark(seed: int, spark: SparkSession, tmp_path: Path):
    check(play_on_spark(generate(seed, most=MOST), spark, str(tmp_path / "t")))
