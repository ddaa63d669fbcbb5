"""Auto compaction joins small files after a write and never makes the write fail."""

from dataclasses import replace

import pytest

from engine.commands.model import Optimize
from engine.commands.sql import parse_statement
from engine.errors import InvalidPropertyError
from engine.log.commits import read_commit
from engine.operations.execution import Execution
from engine.operations.maintenance.auto_compaction import (
    CompactionTerms,
    compaction_after,
    worth_joining,
)
from engine.operations.run import run
from engine.protocol.properties import TableProperties
from engine.schema.types import DATE, LONG, STRING, StructField, StructType
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.made_tables import SCHEMA, add, metadata, remove, write_commit, write_first

ON = {"delta.autoOptimize.autoCompact": "true"}
WRITE = parse_statement("INSERT INTO t VALUES (1, 'a')")
ONLY_IF_ASKED = parse_statement("INSERT INTO t WITH ('autoCompact' = 'true') VALUES (1, 'a')")
NEVER = parse_statement("INSERT INTO t WITH ('autoCompact' = 'false') VALUES (1, 'a')")
PARTITIONED = StructType(
    (StructField("id", LONG), StructField("d", DATE), StructField("who", STRING))
)


def table_of(*sizes: int, properties: dict[str, str] | None = None, fresh: int = 1) -> DeltaTable:
    """Return a table with files of these sizes; version 2 added the last `fresh` of them."""
    store = MemoryStore("memory://compacted")
    write_first(store, configuration=ON if properties is None else properties)
    files = [add(f"{number}.parquet", size=size) for number, size in enumerate(sizes)]
    write_commit(store, 1, *files[: len(files) - fresh])
    write_commit(store, 2, *files[len(files) - fresh :])
    return DeltaTable(store)


def find_compaction(
    table: DeltaTable, command=WRITE, *, versions=(2,), **settings: str
) -> Optimize | None:
    return compaction_after(command, Execution(table), versions, settings)


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("count", "size", "is_enough"),
    [(50, MIB, True), (49, MIB, False), (50, 64 * MIB, False), (50, 64 * MIB - 1, True)],
)
def test_fifty_files_below_half_the_target_are_enough(count, size, is_enough):
    compaction = find_compaction(table_of(*[size] * count))
    assert compaction == (
        Optimize(auto=True, min_files=50, target_size_bytes=128 * MIB) if is_enough else None
    )
    if compaction:
        assert parse_statement(compaction.statement()) == replace(compaction, table="t")


@pytest.mark.parametrize(
    ("properties", "command", "settings", "compacts"),
    [
        ({}, WRITE, {}, False),
        (ON, WRITE, {}, True),
        ({"delta.autoOptimize": "true"}, WRITE, {}, True),
        ({"delta.autoOptimize.autoCompact": "auto"}, WRITE, {}, True),
        ({"delta.autoOptimize": "false", **ON}, WRITE, {}, True),
        (ON, WRITE, {"enabled": "false"}, False),
        ({}, WRITE, {"enabled": "true"}, True),
        ({}, ONLY_IF_ASKED, {"enabled": "false"}, True),
        (ON, NEVER, {"enabled": "true"}, False),
    ],
)
def test_the_command_is_checked_before_spark_and_spark_before_the_table(
    properties, command, settings, compacts
):
    compaction = find_compaction(table_of(*[1] * 50, properties=properties), command, **settings)
    assert (compaction is not None) is compacts


def test_sizes_and_numbers_are_those_of_spark_and_of_the_table():
    few = table_of(*[90] * 3, properties={**ON, "delta.targetFileSize": "200b"})
    assert find_compaction(few, minNumFiles="4") is None
    assert find_compaction(few, minNumFiles="3") == Optimize(
        auto=True, min_files=3, target_size_bytes=200
    )
    assert find_compaction(few, minNumFiles="3", maxFileSize="100") is None, (
        "90 is not below half of 100"
    )
    assert find_compaction(few, minNumFiles="3", maxFileSize="100b", minFileSize="91") is not None
    assert find_compaction(few, minNumFiles="some") is None, "what is no number is not set"


def test_only_partitions_that_the_write_added_to_are_compacted():
    store = MemoryStore("memory://partitions")
    write_first(store, PARTITIONED, partition_columns=["d", "who"], configuration=ON)
    days = {"2026-01-01": 3, "2026-01-02": 3, "2026-01-03": 2}
    write_commit(
        store,
        1,
        *(
            add(f"{day}-{n}", {"d": day, "who": None})
            for day, count in days.items()
            for n in range(count - 1)
        ),
    )
    write_commit(store, 2, *(add(f"{day}-new", {"d": day, "who": ""}) for day in list(days)[1:]))
    write_commit(store, 3, add("2026-01-01-new", {"d": "2026-01-01", "who": None}))
    table = DeltaTable(store)
    compaction = find_compaction(table, minNumFiles="3")
    assert compaction is not None
    chosen = table.snapshot().files(compaction.where)["path"].to_pylist()
    assert sorted(chosen) == ["2026-01-02-0", "2026-01-02-1", "2026-01-02-new"]
    both = find_compaction(table, versions=(2, 3), minNumFiles="3")
    assert len(table.snapshot().files(both.where)) == 6


def test_a_write_that_only_marks_rows_deleted_requests_nothing():
    table = table_of(*[1] * 50, fresh=0)
    write_commit(table.store, 3, remove("0.parquet"), add("0.parquet", stats="{}"))
    assert find_compaction(table, versions=(3,)) is None


def test_the_files_that_are_joined_are_the_small_ones_of_full_partitions():
    terms = CompactionTerms(min_files=2, small_bytes=10, target_bytes=20)
    files = [
        add("a", {"p": "1"}, size=9),
        add("b", {"p": "1"}, size=10),
        add("c", {"p": "1"}, size=1),
        add("d", {"p": None}, size=1),
        add("e", {"p": ""}, size=1),
        add("f", {"p": "2"}, size=1),
    ]
    assert [file.path for file in worth_joining(files, terms)] == ["a", "c", "d", "e"]


def test_a_value_that_means_nothing_is_refused():
    with pytest.raises(InvalidPropertyError):
        TableProperties.parse({"delta.autoOptimize.autoCompact": "sometimes"})


class _Landing(TransactionObserver):
    """An observer that commits another write at the first transaction with a different id."""

    def __init__(self, table: DeltaTable, txn_id: str) -> None:
        self._table, self._txn_id, self.lost = table, txn_id, []

    def staged(self, txn) -> None:
        if txn.txn_id != self._txn_id:
            version = self._table.version() + 1
            write_commit(self._table.store, version, metadata(SCHEMA, name="renamed"))

    def failed(self, txn, error) -> None:  # noqa: ARG002
        self.lost.append(type(error).__name__)


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_a_write_is_compacted_afterwards_and_stands_where_the_compaction_loses(
    do, empty_table, spark
):
    do(
        "CREATE TABLE t (id BIGINT) USING DELTA"
        " TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')"
    )
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "3")
    try:
        do("INSERT INTO t VALUES (1)")
        assert do("INSERT INTO t VALUES (2)").follow_up is None
        result = do("INSERT INTO t VALUES (3)", txn_id="write", user_name="ada")
        snapshot = empty_table.snapshot()
        assert (result.version, result.follow_up.result.version, snapshot.version) == (3, 4, 4)
        info = read_commit(empty_table.store, 4).commit_info
        assert (info.operation, info.operation_parameters["auto"]) == ("OPTIMIZE", True)
        assert info.user_name == "ada"
        assert (snapshot.file_count, snapshot.row_count) == (1, 3)

        again = run(result.follow_up.command, empty_table, spark)
        assert (again.version, again.message != "") == (None, True)

        do("INSERT INTO t VALUES (4)")
        observer = _Landing(empty_table, "late")
        late = do("INSERT INTO t VALUES (5)", txn_id="late", observer=observer)
        assert (late.version, late.follow_up.result) == (6, None)
        assert observer.lost == ["MetadataChangedException"]
        assert late.follow_up.error_code == "DELTA_METADATA_CHANGED"
        assert empty_table.snapshot().row_count == 5
    finally:
        spark.conf.unset("spark.databricks.delta.autoCompact.minNumFiles")
