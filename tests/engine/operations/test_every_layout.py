"""Every operation on tables of every layout, compared with a model in plain Python."""

import itertools
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.engine.operations.sweep.layouts import (
    FACTORS,
    Layout,
    all_pairs,
    choose_covering_layouts,
    pairs_of,
    random_layouts,
    spread,
)
from tests.engine.operations.sweep.play import play
from tests.engine.operations.sweep.steps import CORE, STEPS
from tests.engine.other_engines import deltalake_rows, duckdb_rows
from tests.shares import one_in

LAYOUTS = choose_covering_layouts()
DEALT = spread(CORE, LAYOUTS)
SHUFFLED = int(os.environ.get("LAYOUTS", "40"))
"""How many layouts `make stress` draws at random."""

READERS = {"deltalake": deltalake_rows, "duckdb": duckdb_rows}


def test_every_two_choices_come_together_in_some_layout():
    assert set().union(*map(pairs_of, LAYOUTS)) == all_pairs()


def test_every_operation_runs_with_every_choice():
    for name, (feature, choices) in itertools.product(CORE, FACTORS.items()):
        met = {getattr(layout, feature) for layout, names in DEALT.items() if name in names}
        assert met == set(choices), (name, feature)


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("layout", one_in(4, LAYOUTS), ids=str)
def test_operations_leave_the_rows_that_the_model_has(
    layout: Layout, spark: SparkSession, tmp_path: Path
):
    order = [name for name in CORE if name in DEALT[layout]]
    assert play(layout, order, spark, tmp_path, READERS).model.step == len(order) + 1


@pytest.mark.spark
@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_all_operations_on_each_layout(layout: Layout, spark: SparkSession, tmp_path: Path):
    played = play(layout, STEPS, spark, tmp_path, READERS, every_step=True)
    assert played.model.step == len(STEPS) + 1


@pytest.mark.spark
@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(SHUFFLED))
def test_operations_in_any_order_on_any_layout(seed: int, spark: SparkSession, tmp_path: Path):
    layout = next(random_layouts(seed))
    order = _order(seed)
    played = play(layout, order, spark, tmp_path, READERS, every_step=True)
    assert played.model.step == len(order) + 1


def _order(seed: int) -> Sequence[str]:
    rng = random.Random(seed)  # noqa: S311 - no secret
    return rng.choices(list(STEPS), k=25)
