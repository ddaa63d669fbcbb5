"""Generated histories with as little commit information as the protocol allows.

A commit without information on its reads counts as one that read everything: some commits may fail
needlessly, but none may succeed wrongly.
"""

import os
import uuid
from collections import Counter

import pytest

from tests.shares import Run
from tests.stateful.history import Played, begin, create, forget, go_on
from tests.stateful.judge import check
from tests.stateful.surroundings import history_of
from tests.stateful.terse_store import TerseStore
from tests.stateful.weather import FakeClock

COUNT = int(os.environ.get("TERSE_HISTORIES", "60" if Run.is_hunt else "30"))
CHUNK = 30


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(COUNT // CHUNK))
def test_histories_with_terse_commits_have_an_order_that_their_level_allows(chunk: int):
    lost: Counter[str] = Counter()
    landed = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        played = _play_tersely(seed)
        try:
            check(played, elsewhere=seed % 10 == 0, promises=False)
        except Exception as error:
            what = f"seed {seed}"
            raise AssertionError(what) from error
        landed += len(played.landed)
        lost.update(type(error).__name__ for error in played.aborted.values())
        forget(played)
    assert landed > 3 * CHUNK
    assert lost["ConcurrentAppendException"] > CHUNK // 4


def _play_tersely(seed: int) -> Played:
    history, clock = history_of(seed), FakeClock()
    table = create(history.setup, f"memory://histories/{uuid.uuid4()}")
    played = begin(history.setup, TerseStore(table.store, clock, seed), clock)
    go_on(played, history.steps)
    return played
