"""The vocabulary of operations: it matches each command's effect and its conflict rules."""

import re
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.commands.model import COMMANDS
from engine.commands.sql import parse_statement
from engine.conflicts.predict.sample_table import SampleTable, TableSetting
from engine.conflicts.predict.statements import EFFECTS, Statement
from engine.errors import ConflictError
from engine.operations.run import run
from engine.protocol.properties import IsolationLevel
from engine.schema.types import INTEGER, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from engine.vocabulary import (
    OPERATION_OF_COMMAND,
    OPERATIONS,
    UNKNOWN,
    Changes,
    Reads,
    Removes,
    StatementKind,
    operation_named,
)

SCHEMA = StructType((StructField("id", INTEGER), StructField("name", STRING)))
PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.constraints.positive": "id > 0",
    "delta.enableDeletionVectors": "true",
    "delta.feature.clustering": "supported",
    "delta.isolationLevel": "Serializable",
}
IN_PROCESS = (
    "INSERT INTO t VALUES (3, 'c')",
    "DELETE FROM t WHERE id = 1",
    "UPDATE t SET name = 'z' WHERE id = 1",
    "MERGE INTO t USING (VALUES (1, 'z')) AS s (id, name) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *",
    "BEGIN ATOMIC DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (3, 'c'); END",
    "TRUNCATE TABLE t",
    "RESTORE TABLE t TO VERSION AS OF 0",
    "CREATE OR REPLACE TABLE t (n BIGINT) USING DELTA",
    "CREATE OR REPLACE TABLE t SHALLOW CLONE other",
    "VACUUM t",
    "ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "ALTER TABLE t UNSET TBLPROPERTIES ('delta.constraints.positive')",
    "ALTER TABLE t ADD COLUMNS (more STRING)",
    "ALTER TABLE t DROP COLUMNS (name)",
    "ALTER TABLE t RENAME COLUMN name TO label",
    "ALTER TABLE t ALTER COLUMN id COMMENT 'key'",
    "ALTER TABLE t DROP CONSTRAINT positive",
    "ALTER TABLE t CLUSTER BY (id)",
    "ALTER TABLE t DROP FEATURE clustering",
)
ON_SPARK = (
    "INSERT INTO t SELECT id, name FROM t WHERE id = 1",
    "INSERT INTO t REPLACE WHERE id = 1 VALUES (1, 'z')",
    "INSERT OVERWRITE t SELECT 3 AS id, 'c' AS name",
    "INSERT INTO t BY NAME SELECT * FROM STREAM(other)",
    "CREATE OR REPLACE TABLE t USING DELTA AS SELECT 1 AS n",
    "OPTIMIZE t",
    "OPTIMIZE t ZORDER BY (id)",
    "REORG TABLE t APPLY (PURGE)",
    "ALTER TABLE t ALTER COLUMN id SET NOT NULL",
    "ALTER TABLE t ADD CONSTRAINT named CHECK (id < 9)",
)
NAMES = """
    ADD COLUMN, ADD COLUMNS, ADD CONSTRAINT, ADD FEATURE, CHANGE COLUMN, CHANGE COLUMNS, CLONE,
    CLUSTER BY, COMPUTE STATS, CONVERT, CREATE OR REPLACE TABLE, CREATE OR REPLACE TABLE AS SELECT,
    CREATE TABLE, CREATE TABLE AS SELECT, DELETE, DROP COLUMNS, DROP CONSTRAINT, DROP FEATURE,
    MERGE, OPTIMIZE, OPTIMIZE CHECKPOINT, REMOVE COLUMN MAPPING, RENAME COLUMN, REORG,
    REORG TABLE UPGRADE UNIFORM, REPLACE COLUMNS, REPLACE TABLE, REPLACE TABLE AS SELECT, RESTORE,
    ROW TRACKING BACKFILL, ROW TRACKING UNBACKFILL, SET TBLPROPERTIES, STREAMING UPDATE, TRUNCATE,
    UNSET TBLPROPERTIES, UPDATE, UPDATE COLUMN METADATA, UPDATE FIELD METADATA, UPDATE SCHEMA,
    UPDATE TABLE METADATA, UPGRADE PROTOCOL, VACUUM END, VACUUM START, WRITE
"""
"""What delta-spark, delta-rs and this engine write as `commitInfo.operation`."""
SAY_NOTHING = {"Manual Update", "Winning operation", "This write", "X", "operation"}
"""Names in histories of tests that do not say what was done; delta-spark writes the first."""
_NAMED = re.compile(r"""\boperation"?(?:=|: )"([A-Za-z][A-Za-z ]*)\"""")


class LateAppend(TransactionObserver):
    """Appends a row that the statements read, once the transaction under test has staged its actions."""

    def __init__(self, uri: str) -> None:
        self.uri, self.has_landed = uri, False

    def staged(self, _txn: ObservedTransaction) -> None:
        """Land the append once."""
        if not self.has_landed:
            self.has_landed = True
            run("INSERT INTO t VALUES (1, 'w')", DeltaTable.open(self.uri), None)


def test_every_command_is_an_operation():
    """A script is what its steps are."""
    assert OPERATION_OF_COMMAND.keys() == COMMANDS.keys() - {"script"}
    played = {parse_statement(text).kind for text in (*IN_PROCESS, *ON_SPARK)}
    assert played == COMMANDS.keys() - {"script"}


def test_every_name_that_an_engine_writes_means_an_operation():
    for name in NAMES.replace("\n", " ").split(", "):
        assert operation_named(name.strip()) is not UNKNOWN, name
    assert operation_named("UPDATE FIELD METADATA").statement is StatementKind.ALTER
    assert operation_named("REPLACE TABLE") is operation_named("CREATE OR REPLACE TABLE")


def test_every_name_in_the_history_of_a_test_means_an_operation():
    sources = Path(__file__).parents[1].rglob("*.py")
    names = {name for path in sources for name in _NAMED.findall(path.read_text("utf-8"))}
    assert len(names) > 15
    unknown = {name for name in names if operation_named(name) is UNKNOWN}
    assert unknown <= SAY_NOTHING


def test_an_operation_conflicts_as_the_vocabulary_says_it_reads_changes_and_removes():
    """A write counts the rows that it removes as read."""
    sample = SampleTable(TableSetting(IsolationLevel.WRITE_SERIALIZABLE, vectors=True))
    for row in OPERATIONS:
        effect = EFFECTS[row.statement](Statement(row.statement, id=1), sample, "current")
        everything = effect.reads_whole_table or any(r.text == "TRUE" for r in effect.reads)
        assert bool(effect.reads or effect.reads_whole_table) == (
            row.reads not in (Reads.NOTHING, Reads.FILES)
            or row.removes in (Removes.ROWS, Removes.ALL_ROWS)
        ), row
        if row.reads is Reads.TABLE or row.removes is Removes.ALL_ROWS:
            assert everything, row
        terms = any(isinstance(a, Metadata | Protocol | DomainMetadata) for a in effect.actions)
        if row.statement is not StatementKind.RESTORE:  # by what its version has
            assert terms == bool(row.changes & Changes.TERMS), row
        if row.statement is not StatementKind.CREATE:  # its rows meet nobody
            files = [a for a in effect.actions if isinstance(a, AddFile | RemoveFile)]
            assert any(file.data_change for file in files) == row.changes_rows, row
        assert operation_named(effect.operation).statement.inserts == row.statement.inserts


@pytest.mark.parametrize("text", IN_PROCESS)
def test_a_command_is_logged_and_conflicts_as_its_operation_says(tmp_path, text):
    _check(text, tmp_path, None)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_command_on_spark_is_logged_and_conflicts_as_its_operation_says(tmp_path, spark):
    for text in ON_SPARK:
        _check(text, tmp_path, spark)


def test_a_constraint_set_as_a_property_reads_the_table_and_finds_no_row(tmp_path):
    text = "ALTER TABLE t SET TBLPROPERTIES ('delta.constraints.named' = 'id < 9')"
    _check(text, tmp_path, None, rows=False)


def _check(text: str, folder: Path, spark: SparkSession | None, *, rows: bool = True) -> None:
    """Check a statement at Serializable, where an append conflicts with reads and removals of its rows."""
    command, other = parse_statement(text), _create_table(folder)
    table = _create_table(folder, rows=rows)
    run(command, table, spark, resolve={"other": other, "t": table}.get)
    assert table.history(1)[0].operation == command.operation.name, text
    table = _create_table(folder, rows=rows)
    observer, conflicts = LateAppend(table.uri), False
    try:
        run(command, table, spark, observer=observer, resolve={"other": other, "t": table}.get)
    except ConflictError:
        conflicts = True
    assert observer.has_landed, text
    operation = command.operation
    reads = operation.reads not in (Reads.NOTHING, Reads.FILES) or command.names_itself
    assert conflicts == (reads or operation.removes is Removes.ALL_ROWS), text


def _create_table(folder: Path, *, rows: bool = True) -> DeltaTable:
    """Create two files, one with a row marked as deleted."""
    table = DeltaTable.create(str(folder / uuid.uuid4().hex), SCHEMA, properties=PROPERTIES)
    if rows:
        run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", table, None)
        run("INSERT INTO t VALUES (4, 'd'), (5, 'e')", table, None)
        run("DELETE FROM t WHERE id = 5", table, None)
    return table
