# ruff: noqa: S608 - statements are what is tested
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.actions.compaction import CompactionInfo
from engine.actions.files import RemoveFile
from engine.commands.model import Optimize
from engine.commands.sql import parse_statement
from engine.errors import RequestError
from engine.log.commits import read_commit
from engine.table import DeltaTable
from tests.engine.operations.conftest import IN_PROCESS
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def _create_table(do, layout=""):
    do(f"CREATE TABLE t (id BIGINT, p STRING) USING DELTA {layout}")
    for n in range(4):
        do(f"INSERT INTO t VALUES ({2 * n}, 'a'), ({2 * n + 1}, 'b')", in_process_bytes=IN_PROCESS)


@pytest.mark.parametrize("layout", one_in(2, ["", "PARTITIONED BY (p)", "CLUSTER BY (id)"]))
def test_optimize_joins_files_and_changes_no_row(do, empty_table, rows_elsewhere, layout):
    _create_table(do, layout)
    do("DELETE FROM t WHERE id = 5")
    before = rows_elsewhere(empty_table)["engine"]
    result = do("OPTIMIZE t")
    after = rows_elsewhere(empty_table)
    assert after["engine"] == after["deltalake"] == after["duckdb"] == before
    assert result.metrics["numAddedFiles"] == (2 if "PART" in layout else 1)
    assert empty_table.history(1)[0].isolation_level == "SnapshotIsolation"


def test_optimize_again_has_nothing_to_do_and_says_so(do, empty_table):
    _create_table(do)
    do("OPTIMIZE t")
    again = do("OPTIMIZE t")
    assert again.version is None
    assert "nothing to do" in again.message


def test_every_removed_file_records_where_its_rows_moved(do, empty_table):
    _create_table(do)
    do("DELETE FROM t WHERE id = 2")
    version = do("OPTIMIZE t").version
    actions = read_commit(empty_table.store, version).actions
    removes = [action for action in actions if isinstance(action, RemoveFile)]
    infos = sorted(
        (CompactionInfo.from_remove(remove) for remove in removes), key=lambda info: info.offset
    )
    assert [info.offset for info in infos] == [
        sum(source.live_count for source in infos[:i]) for i in range(len(infos))
    ]
    assert sum(info.live_count for info in infos) == 7
    assert not any(remove.data_change for remove in removes)


def test_rows_keep_their_order(do, empty_table):
    _create_table(do)
    do("OPTIMIZE t")
    assert empty_table.snapshot().to_arrow()["id"].to_pylist() == list(range(8))


def test_only_the_requested_partitions_are_rewritten(do, empty_table):
    _create_table(do, "PARTITIONED BY (p)")
    result = do("OPTIMIZE t WHERE p = 'a'")
    assert (result.metrics["numAddedFiles"], result.metrics["numRemovedFiles"]) == (1, 4)
    with pytest.raises(RequestError, match="partition column"):
        do("OPTIMIZE t WHERE id = 1")


def test_a_target_size_makes_several_files(do, empty_table):
    _create_table(do)
    size = max(add.size for add in empty_table.snapshot().add_files())
    result = do(Optimize(target_size_bytes=2 * size + 1))
    assert result.metrics["numAddedFiles"] == 2


def test_a_dry_run_lists_the_files(do, do_lightly, empty_table):
    _create_table(do)
    plan = do_lightly("OPTIMIZE t", dry_run=True).plan.as_dict()
    assert (plan["file_count"], plan["new_files"]) == (4, 1)
    assert empty_table.version() == 4


def test_row_ids_survive(do, empty_table):
    _create_table(do, "CLUSTER BY (id)")
    do("OPTIMIZE t")
    column = empty_table.snapshot().properties.row_id_column
    add = empty_table.snapshot().add_files()[0]
    stored = pq.read_table(f"{empty_table.uri}/{add.path}")
    assert stored[column].to_pylist() == list(range(8))


def test_reorg_purges_deleted_rows_from_the_files(do, empty_table):
    _create_table(do)
    do("DELETE FROM t WHERE id = 2")
    result = do("REORG TABLE t APPLY (PURGE)")
    assert result.metrics["numDeletionVectorsRemoved"] == 1
    assert not any(add.deletion_vector for add in empty_table.snapshot().add_files())
    assert sorted(empty_table.snapshot().to_arrow()["id"].to_pylist()) == [0, 1, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("layout", one_in(2, ["", "PARTITIONED BY (q)", "CLUSTER BY (id, p)"]))
def test_rows_are_ordered_by_two_columns_whether_or_not_statistics_count_them(
    do, empty_table, rows_elsewhere, layout
):
    do(f"CREATE TABLE t (id BIGINT, p STRING, q INT) USING DELTA {layout}")
    for low in (0, 1, 2):
        rows = ", ".join(f"({3 * n + low}, '{n % 7}', {n % 2})" for n in range(100))
        do(f"INSERT INTO t VALUES {rows}", in_process_bytes=IN_PROCESS)
    do("INSERT INTO t VALUES (NULL, NULL, 0), (7, NULL, 1)", in_process_bytes=IN_PROCESS)
    _forget_statistics(empty_table)
    before = rows_elsewhere(empty_table)["engine"]
    order = "" if layout.startswith("CLUSTER") else " ZORDER BY (id, p)"
    do(parse_statement(f"OPTIMIZE t{order}"))
    after = DeltaTable.open(empty_table.uri)
    assert rows_elsewhere(after)["engine"] == before
    assert after.snapshot().file_count == (2 if "PARTITIONED" in layout else 1)


def _forget_statistics(table):
    """Remove the statistics of the table's first files, as some writers omit row counts."""
    log = Path(table.uri.removeprefix("file://")) / "_delta_log"
    commit = log / f"{1:020d}.json"
    actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(map(json.dumps, actions)), "utf-8")


@pytest.mark.parametrize(
    ("layout", "statement"),
    [
        ("", "OPTIMIZE t"),
        ("", "OPTIMIZE t ZORDER BY (id)"),
        ("CLUSTER BY (id)", "OPTIMIZE t"),
        ("CLUSTER BY (id)", "OPTIMIZE t FULL"),
    ],
)
def test_a_job_run_again_after_its_commit_rewrites_nothing_twice(
    do, empty_table, layout, statement
):
    _create_table(do, layout)
    before = empty_table.version()
    first = do(statement, txn_id="job", since_version=before)
    again = do(statement, txn_id="job", since_version=before)
    assert empty_table.version() == first.version == before + 1
    assert again.version == (
        first.version if "BY (id)" in statement or "FULL" in statement else None
    )
