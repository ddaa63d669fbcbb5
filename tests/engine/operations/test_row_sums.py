"""Commands whose passes over the rows disagree fail before the commit and leave no file."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.commands.merge import DELETE, INSERT, MATCHED, NOT_MATCHED, AnalyzedClause
from engine.expressions.arrow_functions import FUNCTIONS_OF_ARROW
from engine.expressions.tree import TRUE
from engine.operations import arrow_rows
from engine.operations.maintenance import optimize
from engine.operations.merge import arrow_merge, merge
from engine.operations.rows import delete, update
from engine.operations.rows.row_deletion import RowDeletion
from engine.operations.rows.row_sums import RowSumError, check_clauses, check_inserted
from engine.spark.file_writer import write_files
from engine.spark.row_positions import FileDeletion
from engine.spark.write.writer import write
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.operations.conftest import IN_PROCESS

MERGE = """
    MERGE INTO t USING (VALUES (1, 'x'), (2, 'y'), (9, 'z')) AS s(id, name) ON t.id = s.id
    WHEN MATCHED AND s.id = 1 THEN DELETE
    WHEN MATCHED THEN UPDATE SET name = s.name
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)
"""
IMAGES = ("UPDATE t SET name = 'x' WHERE id > 1", "UPDATE t SET name = 'x'", MERGE)
CASES = [*product(IMAGES, (True, False)), ("DELETE FROM t WHERE id = 2", False)]
BY_SPARK = [
    ("INSERT INTO t REPLACE WHERE id = 2 VALUES (2, 'n')", False),
    ("OPTIMIZE t ZORDER BY (id)", True),
]


def _lose(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.slice(1)


def _repeat(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array([0, *range(rows.num_rows)]))


def _create_table(do: Callable[..., Any], place: Path, *, vectors: bool) -> DeltaTable:
    table = DeltaTable(open_store(str(place)))
    vectored = f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    do(f"CREATE TABLE t (id BIGINT, name STRING) USING DELTA {vectored}", table=table)
    do(
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        table=table,
        in_process_bytes=IN_PROCESS,
    )
    return table


def _files(table: DeltaTable) -> set[Path]:
    return {path for path in Path(table.uri).rglob("*") if path.is_file()}


def _is_refused(do: Callable[..., Any], table: DeltaTable, statement: str, **options: Any) -> None:
    before, rows = _files(table), table.snapshot().to_arrow()
    with pytest.raises(RowSumError, match="Nothing was written"):
        do(statement, table=table, **options)
    assert _files(table) == before, statement
    assert table.snapshot().to_arrow() == rows


def test_a_row_that_this_process_loses_or_repeats_is_not_committed(
    do_lightly, tmp_path, monkeypatch
):
    for number, (statement, vectors) in enumerate(CASES):
        table = _create_table(do_lightly, tmp_path / str(number), vectors=vectors)
        for change in (_lose, _repeat):

            def break_write(batches, *args, change=change):
                return write_files(map(change, batches), *args)

            with monkeypatch.context() as patch:
                patch.setattr(arrow_rows, "write_files", break_write)
                _is_refused(do_lightly, table, statement)
        assert do_lightly(statement, table=table).version == 2


def test_an_update_whose_two_looks_differ_is_not_committed(do_lightly, tmp_path, monkeypatch):
    table = _create_table(do_lightly, tmp_path / "t", vectors=True)
    looks = iter((1, 1, 1, 2, 2, 2, 2))

    def unsteady(values, _types, _result):
        return pa.array([next(looks) for _ in values[0]], pa.int32())

    monkeypatch.setitem(FUNCTIONS_OF_ARROW, "length", unsteady)
    _is_refused(do_lightly, table, "UPDATE t SET name = 'x' WHERE length(name) = 1")


def test_a_merge_that_leaves_a_row_it_replaced_is_not_committed(do_lightly, tmp_path, monkeypatch):
    table = _create_table(do_lightly, tmp_path / "t", vectors=True)

    def forgetful(vectors, bitmaps):
        for bitmap in bitmaps.values():
            bitmap.remove(bitmap.min())
        return merge_bitmaps(vectors, bitmaps)

    merge_bitmaps = arrow_merge.merge_bitmaps
    monkeypatch.setattr(arrow_merge, "merge_bitmaps", forgetful)
    _is_refused(do_lightly, table, MERGE)


def test_a_count_that_the_log_claims_wrongly_breaks_no_sum(do_lightly, tmp_path):
    for number, (statement, vectors) in enumerate(CASES):
        table = _create_table(do_lightly, tmp_path / str(number), vectors=vectors)
        txn = table.start_transaction()
        (add,) = txn.snapshot.add_files()
        txn.stage(msgspec.structs.replace(add, stats='{"numRecords": 7}'))
        txn.commit("WRITE")
        do_lightly(statement, table=table)
        assert table.snapshot().to_arrow().num_rows == (2 if statement.startswith("DELETE") else 3)


def test_each_sum_of_a_merge_is_held(do_lightly, tmp_path):
    snapshot = _create_table(do_lightly, tmp_path / "t", vectors=True).snapshot()
    (add,) = snapshot.add_files()
    gone = RowDeletion(masked=(FileDeletion(add, 2, 2, 3, None),), rows=2)
    matched = AnalyzedClause(MATCHED, DELETE, None, {})
    every, some = (AnalyzedClause(NOT_MATCHED, INSERT, test, {}) for test in (None, TRUE))
    check_clauses(snapshot, (matched,), {0: 2}, gone)
    check_inserted(snapshot, (matched, some), 1, 2)
    check_inserted(snapshot, (matched, every), 2, 2)
    for broken in (
        lambda: check_clauses(snapshot, (matched,), {0: 1}, gone),
        lambda: check_clauses(snapshot, (matched,), {0: 3}, gone),
        lambda: check_inserted(snapshot, (matched, some), 3, 2),
        lambda: check_inserted(snapshot, (matched, every), 1, 2),
    ):
        with pytest.raises(RowSumError):
            broken()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_row_that_spark_loses_or_repeats_is_not_committed(do, tmp_path, monkeypatch):
    changes = (
        lambda frame: frame.limit(frame.count() - 1),
        lambda frame: frame.unionAll(frame.limit(1)),
    )
    for number, (statement, vectors) in enumerate([*CASES, *BY_SPARK]):
        table = _create_table(do, tmp_path / str(number), vectors=vectors)
        change = changes[number % 2]

        def break_write(frame, *args, change=change, **options):
            return write(change(frame), *args, **options)

        with monkeypatch.context() as patch:
            for module in (update, delete, merge, optimize):
                patch.setattr(module, "write", break_write)
            _is_refused(do, table, statement)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_compaction_that_loses_or_repeats_a_row_is_not_committed(do, tmp_path, monkeypatch):
    compact = optimize.compact
    table = _create_table(do, tmp_path / "t", vectors=True)
    do("INSERT INTO t VALUES (4, 'd')", table=table)
    for more in (-1, 1):

        def break_write(*args, more=more, **options):
            return [replace(one, rows=one.rows + more) for one in compact(*args, **options)]

        with monkeypatch.context() as patch:
            patch.setattr(optimize, "compact", break_write)
            _is_refused(do, table, "OPTIMIZE t")
    do("DELETE FROM t WHERE id = 1", table=table)
    with monkeypatch.context() as patch:
        patch.setattr(optimize, "compact", break_write)
        _is_refused(do, table, "REORG TABLE t APPLY (PURGE)")
    assert do("OPTIMIZE t", table=table).version is not None


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_update_that_arrow_finds_and_spark_writes_is_held_together(do, tmp_path, monkeypatch):
    def generous(values, _types, _result):
        return pc.if_else(pc.is_valid(values[0]), pa.scalar(1, pa.int32()), None)

    table = _create_table(do, tmp_path / "t", vectors=True)
    do("INSERT INTO t VALUES (4, 'long')", table=table)
    monkeypatch.setitem(FUNCTIONS_OF_ARROW, "length", generous)
    statement = "UPDATE t SET name = initcap(name) WHERE length(name) = 1"
    _is_refused(do, table, statement, in_process_bytes=1_000_000)
