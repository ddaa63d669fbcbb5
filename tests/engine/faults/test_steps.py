"""Commands of several commits: a failure between them loses no rows, and a rerun completes."""

import uuid

import pytest

from engine.commands.sql import parse_statement
from engine.errors import EngineError
from engine.operations.run import run
from engine.protocol.features import list_supported_features
from engine.snapshot.snapshot import Snapshot
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.faults.stores import AFTER, BEFORE, LOST, FaultyStore, copy_store
from tests.engine.made_tables import write_commit, write_rows
from tests.engine.transaction.tables import FakeClock

ENABLE = "ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
DROP = "ALTER TABLE t DROP FEATURE deletionVectors"


def _create_store() -> MemoryStore:
    """Create two files without row ids, on a table whose protocol has deletion vectors."""
    store = MemoryStore(f"memory://steps/{uuid.uuid4()}")
    statement = (
        "CREATE TABLE t (id BIGINT) TBLPROPERTIES"
        " ('delta.enableDeletionVectors' = 'false', 'delta.feature.deletionVectors' = 'supported')"
    )
    run(parse_statement(statement), DeltaTable(store), None)
    for version, rows in ((1, 3), (2, 5)):
        write_commit(store, version, write_rows(store, f"f{version}", {"id": range(rows)}))
    return store


MADE = _create_store()


def _has_row_ids(snapshot: Snapshot) -> bool:
    starts = {add_file.path: add_file.base_row_id for add_file in snapshot.add_files()}
    return snapshot.properties.row_tracking and abs(starts["f1"] - starts["f2"]) in (3, 5)


def _has_no_vectors(snapshot: Snapshot) -> bool:
    features = list_supported_features(snapshot.protocol)
    protected = snapshot.properties.checkpoint_protection_version
    return "deletionVectors" not in features and 3 < protected <= snapshot.version


@pytest.mark.parametrize("mode", [BEFORE, AFTER, LOST])
@pytest.mark.parametrize(
    ("statement", "is_done"), [(ENABLE, _has_row_ids), (DROP, _has_no_vectors)], ids=["ids", "drop"]
)
def test_a_rerun_completes_the_work_of_a_run_that_failed_between_two_commits(
    mode, statement, is_done
):
    command, fail_at, fired = parse_statement(statement), 0, True
    while fired:
        fail_at += 1
        store = FaultyStore(copy_store(MADE, f"memory://steps/{uuid.uuid4()}"), fail_at, mode)
        error = None
        try:
            run(command, DeltaTable(store, clock=FakeClock()), None)
        except EngineError as caught:
            error = caught
        fired = bool(store.fired)
        assert fired or error is None
        table = DeltaTable(store.inner)
        snapshot = table.snapshot()
        assert is_done(snapshot) or error is not None
        assert {add_file.path for add_file in snapshot.add_files()} == {"f1", "f2"}
        assert snapshot.row_count == 8
        if not is_done(snapshot):
            run(command, table, None)
        assert is_done(table.snapshot())
    assert fail_at > 10
