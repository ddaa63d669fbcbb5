"""Row tracking on a table with files: every row gets an id before the property is set."""

import json

import msgspec
import pyarrow as pa
import pytest

from engine.actions.codec import encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile
from engine.errors import InvalidPropertyError
from engine.log.commits import read_commit
from engine.log.paths import commit_path
from engine.operations.define.set_properties import give_row_ids
from engine.operations.execution import Execution
from engine.operations.write_rows import removal
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver

ENABLE = "ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
FILES = ([1, 2, 3], [4, 5], [6], [7, 8, 9, 10])


@pytest.fixture
def table(do_lightly, empty_table):
    """Return a table with four files without row ids, at versions 1 to 4."""
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
    )
    for ids in FILES:
        _append(empty_table, ids)
    return empty_table


def _write_add(table, ids) -> AddFile:
    target = file_target(TableFiles(table.uri, table.snapshot().schema))
    ((add, _),) = write_files([pa.RecordBatch.from_pydict({"id": ids})], target, 0)
    return add


def _append(table, ids):
    txn = table.start_transaction()
    txn.stage(_write_add(table, ids))
    txn.commit("WRITE", {"mode": "Append"})


def _replace_first(table):
    """Run a DELETE that rewrites the first file."""
    txn = table.start_transaction()
    txn.read_where("id = 1")
    first = next(
        add_file for add_file in table.snapshot().add_files() if '"id":1}' in (add_file.stats or "")
    )
    txn.stage(removal(first), _write_add(table, [2, 3]))
    txn.commit("DELETE")


def _check_ids(table):
    """Check that every live row has its own id, below the high-water mark."""
    snapshot = table.snapshot()
    given = []
    for add_file in snapshot.add_files():
        count = json.loads(add_file.stats)["numRecords"]
        given += range(add_file.base_row_id, add_file.base_row_id + count)
        assert add_file.default_row_commit_version is not None
    assert len(set(given)) == len(given) == snapshot.row_count
    mark = json.loads(snapshot.domains["delta.rowTracking"].configuration)["rowIdHighWaterMark"]
    assert mark >= max(given)


def _ids(table):
    return sorted(table.snapshot().to_arrow()["id"].to_pylist())


def test_rows_that_are_there_get_ids_before_row_tracking_is_enabled(
    do_lightly, table, rows_elsewhere
):
    result = do_lightly(ENABLE)
    names = [commit.operation for commit in table.history(3)]
    assert names == ["SET TBLPROPERTIES", "ROW TRACKING BACKFILL", "UPGRADE PROTOCOL"]
    assert (result.version, result.versions) == (7, (5, 6, 7))
    _check_ids(table)
    assert {add_file.default_row_commit_version for add_file in table.snapshot().add_files()} == {6}
    stated = [
        action for action in read_commit(table.store, 6).actions if isinstance(action, AddFile)
    ]
    assert [restated.data_change for restated in stated] == [False] * 4
    assert table.history(2)[1].isolation_level == "SnapshotIsolation"
    properties = table.snapshot().properties
    assert properties.row_tracking
    assert properties.row_id_column
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"]
    assert len(rows["engine"]) == 10
    _append(table, [11])
    _check_ids(table)
    assert do_lightly(ENABLE).version is None, "all is done"


def test_files_are_stated_some_at_a_time(table):
    assert give_row_ids(Execution(table), files_at_once=2) == (5, 6, 7)
    batches = [commit.operation_parameters for commit in table.history(2)]
    assert [batch["batchId"] for batch in batches] == [1, 0]
    _check_ids(table)


def test_a_writer_of_the_same_files_wins_and_no_row_reappears(do_lightly, table):
    class Interfering(TransactionObserver):
        """An observer that rewrites a file and appends another one during the first batch."""

        done = False

        def staged(self, txn) -> None:  # noqa: ARG002
            if table.history(1)[0].operation == "UPGRADE PROTOCOL" and not self.done:
                self.done = True
                other = DeltaTable(table.store)
                _replace_first(other)
                _append(other, [11, 12])

    do_lightly(ENABLE, observer=Interfering())
    assert _ids(table) == list(range(2, 13))
    _check_ids(table)
    assert table.snapshot().properties.row_tracking


def test_a_delete_does_not_mind_that_ids_are_filled_in_meanwhile(do_lightly, table):
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')")
    txn = table.start_transaction()
    txn.read_where("id < 4")
    first = next(
        add_file for add_file in table.snapshot().add_files() if add_file.base_row_id is None
    )
    give_row_ids(Execution(DeltaTable(table.store)))
    txn.stage(removal(first), _write_add(table, [2, 3]))
    version = txn.commit("DELETE")
    removed = next(
        action
        for action in read_commit(table.store, version).actions
        if hasattr(action, "deletion_timestamp")
    )
    assert removed.base_row_id is not None
    assert _ids(table) == list(range(2, 11))
    _check_ids(table)


def test_files_without_statistics_are_counted_from_their_footers(do_lightly, table):
    txn = table.start_transaction()
    txn.stage(msgspec.structs.replace(_write_add(table, [20, 21]), stats=None))
    txn.commit("WRITE")
    do_lightly(ENABLE)
    _check_ids(table)
    assert _ids(table)[-2:] == [20, 21]


def test_a_dry_run_says_how_many_files_are_stated_again(do_lightly, table):
    plan = do_lightly(ENABLE, dry_run=True).plan
    assert "4 files" in plan.summary
    assert table.version() == 4


def test_suspended_row_tracking_gives_no_ids_and_cannot_be_enabled(do_lightly, table):
    do_lightly(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.feature.rowTracking' = 'supported',"
        " 'delta.rowTrackingSuspended' = 'true')"
    )
    _append(table, [11])
    assert table.snapshot().state.files.column("base_row_id").null_count == 5
    with pytest.raises(InvalidPropertyError, match="suspended"):
        do_lightly(ENABLE)
    with pytest.raises(InvalidPropertyError, match="first"):
        do_lightly(ENABLE[:-1] + ", 'delta.rowTrackingSuspended' = 'false')")
    do_lightly("ALTER TABLE t UNSET TBLPROPERTIES ('delta.rowTrackingSuspended')")
    do_lightly(ENABLE)
    _check_ids(table)


def test_ids_that_come_back_with_files_are_not_given_out_again(do_lightly, table):
    """Dropping the feature removed the domain with the high-water mark; RESTORE brings the files back."""
    numbered = do_lightly(ENABLE).version
    _remove_all(table)
    do_lightly(ENABLE.replace("'true'", "'false'"))
    do_lightly("ALTER TABLE t DROP FEATURE rowTracking")
    assert "delta.rowTracking" not in table.snapshot().domains
    do_lightly(f"RESTORE TABLE t TO VERSION AS OF {numbered}")
    _append(table, [11, 12])
    _check_ids(table)


def test_ids_of_files_count_where_no_domain_remembers_them(do_lightly, table):
    do_lightly(ENABLE)
    txn = table.start_transaction()
    forgotten = msgspec.structs.replace(txn.snapshot.domains["delta.rowTracking"], removed=True)
    lines = "".join(f"{encode(action)}\n" for action in (CommitInfo(), forgotten))
    table.store.put_if_absent(commit_path(txn.read_version + 1), lines.encode())
    _append(table, [11, 12])
    _check_ids(table)


def _remove_all(table):
    txn = table.start_transaction()
    txn.read_whole_table()
    txn.stage(*map(removal, txn.snapshot.add_files()))
    txn.commit("DELETE")
