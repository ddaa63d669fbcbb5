"""Metrics of a commit: they match its effect on files, even after a rebase."""

import uuid

import pytest

from engine.actions.files import AddFile
from engine.conflicts.overlap import changes_of
from engine.log.commits import read_commit
from engine.schema.types import StructType
from engine.table import DeltaTable
from tests.engine.made_tables import stage
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, run
from tests.stateful.history import SCHEMA

ROWS = tuple(("a", x) for x in range(6))
NAMES = ("numRemovedFiles", "numDeletionVectorsAdded", "numDeletionVectorsUpdated")


def _table() -> DeltaTable:
    properties = {"delta.enableDeletionVectors": "true"}
    uri = f"memory://metrics/{uuid.uuid4()}"
    table = DeltaTable.create(uri, StructType(SCHEMA.fields), properties=properties)
    for number in (1, 2):
        _do(table, c.Append(number, ROWS[:3] if number == 1 else ROWS[3:]))
    return table


def _do(table: DeltaTable, command: c.Command) -> None:
    running = run(command, table, stats=True)
    running.txn.commit(running.operation)


def _count_staged(running: Running) -> dict[str, int | str]:
    """Return the counts of an operation before it commits."""
    changes = changes_of(running.staged).values()
    whole = [change.remove for change in changes if change.remove and not change.add]
    return {
        "numRemovedFiles": len(whole),
        "numRemovedBytes": sum(file.size or 0 for file in whole),
        "numDeletionVectorsAdded": sum(bool(change.remove and change.add) for change in changes),
        "numDeletionVectorsUpdated": 0,
        "numDeletedRows": 3,
        "note": "1",
    }


@pytest.mark.parametrize(
    ("winner", "staged", "landed"),
    [
        (c.Append(9, ROWS), (1, 1, 0), (1, 1, 0)),
        (c.Delete(4, c.Range(5, 6)), (1, 1, 0), (1, 1, 1)),
        (c.Optimize(4, (0, 1)), (1, 1, 0), (0, 1, 0)),
    ],
    ids=["nobody met", "a vector is there now", "both files are one now"],
)
def test_files_and_vectors_are_counted_as_they_landed(
    winner: c.Command, staged: tuple[int, ...], landed: tuple[int, ...]
):
    table = _table()
    running = run(c.Delete(7, c.Range(0, 4)), table, stats=True)
    metrics = _count_staged(running)
    assert tuple(metrics[name] for name in NAMES) == staged
    _do(table, winner)
    version = running.txn.commit("DELETE", {}, metrics)
    info = read_commit(table.store, version).commit_info
    assert info is not None
    assert running.txn.outcome is not None
    said = info.operation_metrics or {}
    assert tuple(int(said[name]) for name in NAMES) == landed
    assert {name: str(value) for name, value in running.txn.outcome.metrics.items()} == said
    assert (said["numRemovedBytes"] == "0") is (landed[0] == 0)
    assert (said["numDeletedRows"], said["note"]) == ("3", "1")


def test_the_sizes_of_an_optimize_are_those_of_the_files_that_were_left_of_it():
    """A winning commit deletes everything that one of two compactions moves, so its output is never added."""
    table = _table()
    running = run(c.Optimize(7, (0,)), table, stats=True)
    other = run(c.Optimize(8, (1,)), table, stats=True)
    stage(running.txn, *other.staged)
    sizes = {
        action.path: action.size for action in running.txn.actions if isinstance(action, AddFile)
    }
    metrics = {"numAddedFiles": 2, "minFileSize": 1, "p50FileSize": 1, "maxFileSize": 10**9}
    _do(table, c.Delete(9, c.Range(0, 3)))
    running.txn.commit("OPTIMIZE", {}, metrics)
    assert running.txn.outcome is not None
    landed = {add.path for add in table.snapshot().add_files()} & sizes.keys()
    assert len(landed) == 1
    size = sizes[landed.pop()]
    assert dict(running.txn.outcome.metrics) == {
        "numAddedFiles": 1,
        "minFileSize": size,
        "p50FileSize": size,
        "maxFileSize": size,
    }
