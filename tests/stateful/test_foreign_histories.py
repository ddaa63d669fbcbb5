"""Generated histories in which deltalake commits between this engine's reads and its commits."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stateful.deltalake_engine import Deltalake
from tests.stateful.foreign import foreign_history
from tests.stateful.history import History, play
from tests.stateful.judge import check

CHUNK, STRESS_CHUNKS = 30, 70
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
            raise AssertionError(_told(seed, history)) from error
        foreign = played.scene.foreign
        landed.update(type(command).__name__ for command in foreign.values())
        winners = [getattr(error, "conflict", None) for error in played.lost.values()]
        lost_to_it += sum(
            winner is not None and winner.winner.version in foreign for winner in winners
        )
    record_property("histories", CHUNK)
    record_property("commits of deltalake", sum(landed.values()))
    assert {"Append", "Delete", "Update", "Merge", "Optimize"} <= set(landed)
    assert lost_to_it >= CHUNK // 10


def _told(seed: int, history: History) -> str:
    steps = "\n".join(map(str, history.steps))
    return f"seed {seed}: {history.setup}\n{steps}"
