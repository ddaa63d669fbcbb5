"""Generated histories in which deltalake commits between this engine's reads and its commits."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.stateful.deltalake_engine import Deltalake
from tests.stateful.foreign import foreign_history
from tests.stateful.happenings import Happening, Scene
from tests.stateful.history import History, Step, play
from tests.stateful.judge import check

CHUNK, STRESS_CHUNKS = 30, 70
VACUUM_CHUNK, VACUUM_CHUNKS = 60, 20
ELSEWHERE = Deltalake()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "chunk",
    [0, *(pytest.param(n, marks=pytest.mark.stress) for n in range(1, STRESS_CHUNKS))],
)
def test_histories_with_commits_of_deltalake_have_an_order_that_their_level_allows(
    chunk: int, tmp_path: Path, record_property: Callable[[str, object], None]
):
    landed: Counter[str] = Counter()
    lost_to_it = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        history = foreign_history(seed, ELSEWHERE)
        try:
            played = play(history, str(tmp_path / str(seed)))
            check(played)
        except Exception as error:
            raise AssertionError(_render_history(seed, history)) from error
        foreign = played.scene.foreign
        landed.update(type(command).__name__ for command in foreign.values())
        winners = [getattr(error, "conflict", None) for error in played.aborted.values()]
        lost_to_it += sum(
            winner is not None and winner.winner.version in foreign for winner in winners
        )
    record_property("histories", CHUNK)
    record_property("commits of deltalake", sum(landed.values()))
    missing = {"Append", "Delete", "Update", "Merge", "Optimize"} - set(landed)
    assert len(missing) <= (chunk > 0), "thirty histories may lack one kind, the first have all"
    assert lost_to_it >= CHUNK // 10


@dataclass(frozen=True)
class VacuumOfDeltalake(Happening):
    """A VACUUM by deltalake without retention, which ignores active writers."""

    def happen(self, scene: Scene) -> None:
        scene.record.follow()
        before = scene.record.newest.number
        other = DeltaTable(scene.table.uri)
        other.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        scene.record.follow()
        scene.noted.update(range(before + 1, scene.record.newest.number + 1))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "chunk",
    [1, *(pytest.param(n, marks=pytest.mark.stress) for n in (0, *range(2, VACUUM_CHUNKS)))],
)
def test_histories_live_with_a_vacuum_of_deltalake_at_any_moment(chunk: int, tmp_path: Path):
    """It aborts commits whose files it deleted. If it knows all features, it deletes no live file."""
    landed = 0
    for seed in range(chunk * VACUUM_CHUNK, (chunk + 1) * VACUUM_CHUNK):
        history = foreign_history(seed, ELSEWHERE)
        if history.setup.vectors is not False:
            continue
        history = History(history.setup, tuple(_add_vacuums(seed, history.steps)))
        try:
            played = play(history, str(tmp_path / str(seed)))
            check(played)
        except Exception as error:
            raise AssertionError(_render_history(seed, history)) from error
        landed += len(played.scene.noted)
    assert landed


def _add_vacuums(seed: int, steps: Iterable[Step]) -> Iterator[Step]:
    dice = random.Random(f"vacuumed {seed}")  # noqa: S311 - a seed reproduces a history
    for step in steps:
        if step.commits is not None and dice.random() < 0.25:
            yield replace(step, within=(*step.within, VacuumOfDeltalake()))
        elif dice.random() < 0.15:
            yield replace(step, before=(*step.before, VacuumOfDeltalake()))
        else:
            yield step


def _render_history(seed: int, history: History) -> str:
    steps = "\n".join(map(str, history.steps))
    return f"seed {seed}: {history.setup}\n{steps}"
