"""Many threads on one log, in memory and on disk, and the log as another engine reads it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import ConflictError
from engine.log.commits import list_versions, read_commit
from engine.table import DeltaTable
from tests.engine.transaction.tables import append, new_table, paths_of
from tests.stateful import commands as c
from tests.stateful.arrow_engine import rows_of, run, state_of
from tests.stateful.elsewhere import check_elsewhere
from tests.stateful.history import SCHEMA

WRITERS, EACH = 6, 8


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_every_append_of_many_threads_lands_once(place: str, tmp_path: Path):
    table = new_table() if place == "memory" else DeltaTable.create(str(tmp_path / "t"), SCHEMA)

    def write(writer: int) -> None:
        own = DeltaTable.open(table.uri)
        for number in range(EACH):
            append(own, f"{writer}-{number}") if place == "memory" else _append(own, writer, number)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert list_versions(table.store) == list(range(WRITERS * EACH + 1))
    ids = [read_commit(table.store, v).commit_info.txn_id for v in list_versions(table.store)]
    assert len(set(ids)) == len(ids)
    if place == "memory":
        assert len(paths_of(table)) == WRITERS * EACH
    else:
        assert len(rows_of(DeltaTable.open(table.uri).snapshot())) == WRITERS * EACH


def _append(table: DeltaTable, writer: int, number: int) -> None:
    running = run(c.Append(writer * 100 + number, (("a", number),)), table, stats=True)
    running.txn.commit("WRITE")


def test_deletes_of_many_threads_in_one_file_all_land(tmp_path: Path):
    """Each thread deletes a different row: deletion vectors are merged under contention."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = DeltaTable.create(str(tmp_path / "t"), SCHEMA, properties=properties)
    running = run(c.Append(1, tuple(("a", x) for x in range(20))), table, stats=True)
    running.txn.commit("WRITE")

    def delete(x: int) -> bool:
        own = DeltaTable.open(table.uri)
        mine = run(c.Delete(2 + x, c.Range(x, x + 1)), own, stats=True)
        try:
            mine.txn.commit("DELETE")
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        landed = list(pool.map(delete, range(12)))
    assert all(landed)
    left = rows_of(DeltaTable.open(table.uri).snapshot())
    assert sorted(row[1] for row in left.values()) == list(range(12, 20))


@pytest.mark.parametrize(
    "commands",
    [
        (c.Delete(3, c.Range(0, 2)), c.Delete(4, c.Range(4, 5)), c.Update(5, c.Range(3, 4), 9)),
        (c.Delete(3, c.Range(0, 2)), c.Optimize(4, (0, 1)), c.Append(5, (("b", 7),))),
        (c.Optimize(3, (0, 1)), c.Delete(4, c.Range(4, 5)), c.Delete(5, c.Range(0, 1))),
    ],
    ids=["deletes and an update", "a delete over optimize", "optimize over deletes"],
)
def test_other_engines_read_the_same_rows(commands: tuple[c.Command, ...], tmp_path: Path):
    """All begin at one version; the last to begin commits first."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = DeltaTable.create(str(tmp_path / "t"), SCHEMA, properties=properties)
    for number in (1, 2):
        running = run(c.Append(number, tuple(("a", x) for x in range(6))), table, stats=True)
        running.txn.commit("WRITE")
    started = [run(command, table, stats=True) for command in commands]
    for writer in reversed(started):
        writer.txn.commit(writer.operation)
    assert any(writer.txn.outcome and writer.txn.outcome.resolved for writer in started)
    newest = DeltaTable.open(table.uri).snapshot()
    check_elsewhere(newest, state_of(newest))
