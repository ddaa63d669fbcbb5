"""Generated histories: the rows are those of an order that the isolation level allows.

Serializable: the order of the history. WriteSerializable: an order that differs from it only by
moving blind appends later. A failing seed prints its history, shrunk.
"""

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.stateful import commands as c
from tests.stateful.generator import generate
from tests.stateful.happenings import Checkpoint, Compact, Look, VacuumElsewhere, Wait
from tests.stateful.history import History, Played, forget, play
from tests.stateful.judge import is_sound, shrink
from tests.stateful.properties import EVERYTHING, is_looked_into
from tests.stateful.surroundings import history_of
from tests.stateful.typed_values import TYPES

COUNT = int(os.environ.get("HISTORIES", "100"))
FIRST = int(os.environ.get("FIRST_HISTORY", "0"))
CHUNK, LONG_CHUNK = 100, 40
PATIENCE_S = 3600 if EVERYTHING else 300  # a long hunt gives way to everything else


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("chunk", range(COUNT // CHUNK))
def test_every_history_has_an_order_that_its_level_allows(
    chunk: int, record_property: Callable[[str, object], None]
):
    record_property("histories", CHUNK)
    for seed in range(FIRST + chunk * CHUNK, FIRST + (chunk + 1) * CHUNK):
        _check(seed, history_of(seed))


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("chunk", range(max(1, COUNT // 1000)))
def test_long_generated_histories_are_serializable(
    chunk: int, record_property: Callable[[str, object], None]
):
    """A compaction may meet three winners, each of which may remove some of the moved rows."""
    record_property("longer histories", LONG_CHUNK)
    for seed in range(FIRST + chunk * LONG_CHUNK, FIRST + (chunk + 1) * LONG_CHUNK):
        _check(seed, history_of(seed, most=14))


def _check(seed: int, history: History) -> None:
    if is_sound(history, versions=is_looked_into(seed)) is not None:
        smallest = shrink(history)
        steps = "\n".join(map(str, smallest.steps))
        pytest.fail(f"seed {seed}: {smallest.setup}\n{steps}\n{is_sound(smallest)}")


def test_histories_reach_every_resolution_and_every_abort():
    """The generator reaches every case that it should test."""
    resolved: Counter[str] = Counter()
    landed: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for seed in range(150):
        played = play(history_of(seed))
        resolved.update(_means(played))
        landed.update(type(running.command).__name__ for running in played.landed.values())
        lost.update(type(error).__name__ for error in played.aborted.values())
        forget(played)
    assert {"row map", "row ids", "rows read", "deletion vectors merged"} <= set(resolved)
    assert {subclass.__name__ for subclass in c.Command.__subclasses__()} == set(landed)
    assert {
        "ConcurrentAppendException",
        "ConcurrentDeleteReadException",
        "ConcurrentDeleteDeleteException",
        "MetadataChangedException",
        "ProtocolChangedException",
        "StagedFilesGoneError",
    } <= set(lost)


def test_histories_alter_tables_in_every_way():
    steps = [step for seed in range(400) for step in generate(seed).steps]
    altered = [step.opens.what for step in steps if isinstance(step.opens, c.Alter)]
    assert set(altered) == {"set", "constrain", "cluster", "feature", "add", "drop", "rename"}


def test_histories_have_all_kinds_of_surroundings():
    histories = [history_of(seed) for seed in range(400)]
    steps = [step for history in histories for step in history.steps]
    for happenings in (
        [h for step in steps for h in step.before],
        [h for step in steps for h in step.within],
    ):
        assert {type(happening) for happening in happenings} >= {
            Checkpoint,
            Compact,
            Look,
            VacuumElsewhere,
            Wait,
        }
    assert {history.setup.typed for history in histories} == {"", *TYPES}
    told = [step.opens.where.typed for step in steps if isinstance(step.opens, c.Delete | c.Update)]
    assert set(told) == {"", *TYPES}
    properties = {name for history in histories for name, _ in history.setup.properties}
    assert {
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.logCompactionInterval",
        "delta.enableChangeDataFeed",
    } <= properties


def _means(played: Played) -> list[str]:
    outcomes = [running.txn.outcome for running in played.landed.values()]
    conflicts = [
        conflict for outcome in outcomes if outcome is not None for conflict in outcome.resolved
    ]
    return [means for resolved in conflicts for means in resolved.how.split(", ")]
