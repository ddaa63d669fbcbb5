"""A trial on a copy ends as the same writes did on the table itself."""

import json

import pyarrow as pa
import pytest

from engine.actions.files import AddFile
from engine.clock import SystemClock
from engine.commands.sql import parse_statement
from engine.conflict_facts import Rule, TrialChange, Verdict
from engine.errors import ConcurrentAppendException, ConflictError
from engine.operations.run import run
from engine.operations.trial import RecordedWrite, TrialLimits, try_write
from engine.schema.types import LONG, StructField, StructType
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.made_tables import WITH_VECTORS, write_commit, write_first, write_rows

SCHEMA = StructType((StructField("id", LONG), StructField("n", LONG)))
VECTORS = {"delta.enableDeletionVectors": "true"}
UPDATE = "UPDATE t SET n = 7 WHERE id >= 2 AND id < 6"
DELETE = "DELETE FROM t WHERE id = 6"


def _table(tmp_path, **values) -> DeltaTable:
    """Create a table of two files: ids 0 to 9, and 10 to 19."""
    table = DeltaTable(LocalStore(str(tmp_path / "t")))
    write_first(table.store, SCHEMA, **values)
    write_commit(
        table.store,
        1,
        _file(table, "a.parquet", range(10)),
        _file(table, "b.parquet", range(10, 20)),
    )
    return table


def _file(table: DeltaTable, name: str, ids: range) -> AddFile:
    bounds = {"minValues": {"id": ids[0]}, "maxValues": {"id": ids[-1]}}
    stats = json.dumps({"numRecords": len(ids), **bounds})
    rows = pa.table({"id": ids, "n": [0] * len(ids)})
    return write_rows(table.store, name, rows, stats=stats)


class _Lands(TransactionObserver):
    def __init__(self, table: DeltaTable, *statements: str) -> None:
        self._table, self._statements = table, statements

    def staged(self, txn) -> None:  # noqa: ARG002 - of the protocol
        for statement in self._statements:
            run(parse_statement(statement), DeltaTable(self._table.store), None)


def _abort_write(table: DeltaTable, mine: str, *theirs: str) -> RecordedWrite:
    """Return the record of a write that the others aborted."""
    command = parse_statement(mine)
    with pytest.raises(ConflictError):
        run(command, table, None, observer=_Lands(table, *theirs))
    winners = {2 + number: parse_statement(text) for number, text in enumerate(theirs)}
    return RecordedWrite(table=table, command=command, read_version=1, winners=winners)


def _limits(**values) -> TrialLimits:
    clock = SystemClock()
    return TrialLimits(**{"copied_bytes": 1 << 20, "until_s": clock.monotonic_s() + 60} | values)


@pytest.fixture
def write_record(tmp_path) -> RecordedWrite:
    """Return a record from a table without deletion vectors: both writes change other rows of one file."""
    return _abort_write(_table(tmp_path), UPDATE, DELETE)


def test_an_aborted_write_is_aborted_again_by_the_same_version(write_record):
    tried = try_write(write_record, TrialChange(), _limits())
    assert tried.verdict is Verdict.CONFLICT
    assert tried.winning_version == 2
    assert tried.rule in (Rule.DATA_ADDED, Rule.READ_FILE_REMOVED)


def test_begun_after_the_others_it_passes_and_counts_its_rows(write_record):
    tried = try_write(write_record, TrialChange(after_winners=True), _limits())
    assert (tried.verdict, tried.metrics["numUpdatedRows"]) == (Verdict.PASSES, 4)


def test_with_deletion_vectors_on_rows_resolve_it(write_record):
    change = TrialChange(properties=VECTORS, winners_again=True)
    tried = try_write(write_record, change, _limits())
    assert tried.verdict is Verdict.RESOLVED, tried.why


def test_deletion_vectors_do_not_help_where_both_touch_one_row(tmp_path):
    aborted = _abort_write(_table(tmp_path), UPDATE, "DELETE FROM t WHERE id = 3")
    change = TrialChange(properties=VECTORS, winners_again=True)
    tried = try_write(aborted, change, _limits())
    assert tried.verdict is Verdict.CONFLICT
    assert tried.winning_version == 2


def test_a_condition_to_try_reads_no_other_table(tmp_path):
    aborted = _abort_write(_table(tmp_path), UPDATE, DELETE)
    asked = []
    limits = _limits(resolve=asked.append)
    change = TrialChange(condition="id IN (SELECT id FROM another)")
    tried = try_write(aborted, change, limits)
    assert (tried.verdict, asked) == (Verdict.UNDECIDABLE, [])
    assert "subquery" in tried.why


def test_a_condition_that_keeps_off_the_others_file_passes_and_one_that_does_not_conflicts(
    tmp_path,
):
    aborted = _abort_write(_table(tmp_path), "UPDATE t SET n = 7 WHERE id >= 5", DELETE)
    apart = try_write(aborted, TrialChange(condition="id >= 10"), _limits())
    assert (apart.verdict, apart.metrics["numUpdatedRows"]) == (Verdict.PASSES, 10)
    assert (
        try_write(aborted, TrialChange(condition="id < 9"), _limits()).verdict is Verdict.CONFLICT
    )


def test_serializable_helps_no_write(write_record):
    level = TrialChange(properties={"delta.isolationLevel": "Serializable"})
    assert try_write(write_record, level, _limits()).verdict is Verdict.CONFLICT


def test_a_winner_that_cannot_run_again_leaves_vectors_undecided(write_record):
    nameless = RecordedWrite(
        table=write_record.table, command=write_record.command, read_version=1, winners={2: None}
    )
    tried = try_write(nameless, TrialChange(properties=VECTORS, winners_again=True), _limits())
    assert (tried.verdict, "statement is not recorded" in tried.why) == (Verdict.UNDECIDABLE, True)
    assert not tried.needs_spark
    assert try_write(nameless, TrialChange(), _limits()).verdict is Verdict.CONFLICT


@pytest.mark.parametrize("gone", ["a.parquet", "_delta_log/00000000000000000002.json"])
def test_cleaned_versions_cannot_be_tried(write_record, gone):
    write_record.table.store.delete(gone)
    tried = try_write(write_record, TrialChange(), _limits())
    assert (tried.verdict, "no longer exist" in tried.why) == (Verdict.UNDECIDABLE, True)


def test_large_or_slow_writes_are_not_tried(write_record):
    large = try_write(write_record, TrialChange(), _limits(copied_bytes=10))
    assert (large.verdict, "at most 10" in large.why) == (Verdict.UNDECIDABLE, True)
    slow = try_write(write_record, TrialChange(), _limits(until_s=0.0))
    assert (slow.verdict, "longer than" in slow.why) == (Verdict.UNDECIDABLE, True)


def test_writes_that_need_spark_are_not_tried(write_record):
    optimize = RecordedWrite(
        table=write_record.table, command=parse_statement("OPTIMIZE t"), read_version=1,
        winners=write_record.winners,
    )  # fmt: skip
    tried = try_write(optimize, TrialChange(), _limits())
    assert (tried.verdict, tried.needs_spark) == (Verdict.UNDECIDABLE, True)
    assert tried.why == "OPTIMIZE needs Spark here, and trials run without Spark"


def test_a_trial_leaves_the_table_and_memory_as_they_were(write_record):
    before = {status.path for status in write_record.table.store.list_all()}
    try_write(write_record, TrialChange(properties=VECTORS, winners_again=True), _limits())
    assert {status.path for status in write_record.table.store.list_all()} == before
    assert not [name for name in MemoryStore("memory://").list_all() if "trial-" in name.path]


def test_rows_marked_by_deletion_vectors_stay_deleted(tmp_path):
    table = _table(tmp_path, protocol=WITH_VECTORS, configuration=VECTORS)
    run(parse_statement("DELETE FROM t WHERE id = 4"), table, None)
    command = parse_statement(UPDATE)
    with pytest.raises(ConcurrentAppendException):
        run(command, table, None, observer=_Lands(table, "UPDATE t SET n = 9 WHERE id = 3"))
    winners = {3: None}
    aborted = RecordedWrite(table=table, command=command, read_version=2, winners=winners)
    assert try_write(aborted, TrialChange(), _limits()).verdict is Verdict.CONFLICT
    later = try_write(aborted, TrialChange(after_winners=True), _limits())
    assert later.metrics["numUpdatedRows"] == 3
