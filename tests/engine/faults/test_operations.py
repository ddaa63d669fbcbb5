"""Every store call fails once, in every mode, under every operation that needs no Spark.

Afterwards the table is in its old or its new state, the answer was right, no file of the log is
missing, and a second run of the same job reaches the new state, once.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from engine.commands.alter import DropFeature
from engine.commands.command import Command
from engine.commands.model import (
    Append,
    Clone,
    Create,
    Merge,
    Optimize,
    Overwrite,
    Reorg,
    Restore,
    Stream,
    Update,
    Vacuum,
)
from engine.commands.sql import parse_statement
from engine.errors import CommitOutcomeUnknownError, EngineError, TableNotFoundError
from engine.log.segment import list_log_files
from engine.operations.run import OPERATIONS as RUN
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.types import INTEGER, LONG, STRING, StructField, StructType
from engine.storage.base import Store
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.log_tail import newest_version
from tests.engine.faults.states import check_whole, commits_of, state_of
from tests.engine.faults.stores import FaultyStore, copy_store, faults
from tests.engine.transaction.tables import FakeClock
from tests.shares import one_in
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run as run_on_arrow
from tests.stateful.history import SCHEMA

NOW = 1_700_000_000_000
HOUR = 3_600_000
SOURCE = "memory://cloned-with-faults"
STRAY = "left by nobody.parquet"
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


def _do(table: DeltaTable, command: c.Command) -> None:
    running = run_on_arrow(command, table, stats=True)
    running.txn.commit(running.operation)


def _create_loaded(uri: str, **properties: str) -> DeltaTable:
    """Create a table whose history has inserts, deletion vectors and removals of whole files."""
    named = {"delta.checkpointInterval": "100", **properties}
    table = DeltaTable.create(uri, SCHEMA, properties=named)
    table.clock = FakeClock(ms=NOW)
    _do(table, c.Append(1, tuple(("a", x) for x in range(6))))
    _do(table, c.Append(2, tuple(("b", x) for x in range(6, 9))))
    _do(table, c.Delete(3, c.Range(0, 2)))
    _do(table, c.Delete(4, c.Range(6, 9)))
    return table


def _create_checkpointed(uri: str) -> DeltaTable:
    return _create_loaded(uri, **{"delta.checkpointInterval": "4"})


def _empty(uri: str, **properties: str) -> DeltaTable:
    schema = StructType((StructField("id", INTEGER), StructField("name", STRING)))
    return DeltaTable.create(uri, schema, properties={**MAPPED, **properties})


def _bare(uri: str) -> DeltaTable:
    schema = StructType((StructField("id", INTEGER),))
    return DeltaTable.create(uri, schema, properties={"delta.checkpointInterval": "4"})


def _nothing(uri: str) -> DeltaTable:
    return DeltaTable(open_store(uri))


def _create_beside_source(uri: str) -> DeltaTable:
    if not list_log_files(open_store(SOURCE)):
        _create_loaded(SOURCE)
    return _nothing(uri)


def _create_clone(uri: str) -> DeltaTable:
    table = _create_beside_source(uri)
    run(Clone(SOURCE, version=2, deep=True), table, None)
    return table


def _create_constrained(uri: str) -> DeltaTable:
    return _empty(uri, **{"delta.constraints.positive": "id > 0"})


def _create_with_idle_feature(uri: str) -> DeltaTable:
    return _empty(uri, **{"delta.feature.clustering": "supported"})


@dataclass(frozen=True)
class Operation:
    """A command and its table."""

    command: Command | str
    table: Callable[[str], DeltaTable] = _empty

    @property
    def parsed(self) -> Command:
        return parse_statement(self.command) if isinstance(self.command, str) else self.command


NEW = StructType((StructField("n", LONG),))
OPERATIONS: dict[str, Operation] = {
    "create": Operation(Create(schema=NEW, clustering_columns=("n",)), _nothing),
    "replace": Operation(Create(schema=NEW, replace=True), _create_loaded),
    "truncate": Operation("TRUNCATE TABLE t", _create_loaded),
    "delete everything": Operation("DELETE FROM t", _create_loaded),
    "transaction": Operation(
        "BEGIN ATOMIC DELETE FROM t WHERE x < 3; "
        "INSERT INTO t VALUES ('u', 'a', 1, 2, 3), ('v', 'b', 4, 5, 6); "
        "UPDATE t SET n = 7 WHERE x > 3; DELETE FROM t WHERE u = 'u'; END",
        _create_loaded,
    ),
    "restore": Operation(Restore(version=2), _create_loaded),
    "restore from before a checkpoint": Operation(Restore(version=3), _create_checkpointed),
    "set properties": Operation(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", _create_loaded
    ),
    "enable in-commit timestamps": Operation(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')", _bare
    ),
    "enable column mapping": Operation(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", _bare
    ),
    "unset properties": Operation(
        "ALTER TABLE t UNSET TBLPROPERTIES ('delta.checkpointInterval')", _bare
    ),
    "add columns": Operation("ALTER TABLE t ADD COLUMNS (more STRING AFTER id)"),
    "drop columns": Operation("ALTER TABLE t DROP COLUMNS (name)"),
    "rename a column": Operation("ALTER TABLE t RENAME COLUMN name TO label"),
    "widen a column": Operation("ALTER TABLE t ALTER COLUMN id TYPE BIGINT"),
    "move a column": Operation("ALTER TABLE t ALTER COLUMN name FIRST"),
    "comment on a column": Operation("ALTER TABLE t ALTER COLUMN id COMMENT 'what it is'"),
    "set a default": Operation("ALTER TABLE t ALTER COLUMN id SET DEFAULT 7"),
    "add a constraint": Operation("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 1)"),
    "drop a constraint": Operation("ALTER TABLE t DROP CONSTRAINT positive", _create_constrained),
    "cluster": Operation("ALTER TABLE t CLUSTER BY (id)"),
    "clone deeply": Operation(Clone(SOURCE, deep=True), _create_beside_source),
    "clone deeply again": Operation(Clone(SOURCE, deep=True, replace=True), _create_clone),
    "drop a feature": Operation(DropFeature(feature="clustering"), _create_with_idle_feature),
}


ON_SPARK = {Append, Merge, Optimize, Overwrite, Reorg, Stream, Update}
"""Commands that write rows: `test_spark_operations.py` fails the calls of those writes."""


def _uri() -> str:
    return f"memory://operations/{uuid.uuid4()}"


def _run(operation: Operation, store: Store, **options: object) -> None:
    table = DeltaTable(store, clock=FakeClock(ms=NOW))
    run(operation.parsed, table, None, RunOptions(**options))  # type: ignore[arg-type]


def _state(uri: str) -> str:
    try:
        return state_of(DeltaTable.open(uri).snapshot())
    except TableNotFoundError:
        return "no table"


def _check(
    operation: Operation, made: Store, states: tuple[str, str], fail_at: int, mode: str
) -> EngineError | None:
    """Run the operation on a store whose n-th call fails, and check every guarantee."""
    table = copy_store(made, _uri())
    txn_id, since = str(uuid.uuid4()), newest_version(made)
    store = FaultyStore(table, fail_at=fail_at, mode=mode)
    error = None
    try:
        _run(operation, store, txn_id=txn_id)
    except EngineError as raised:
        error = raised
    where = f"call {fail_at} ({store.calls[fail_at - 1 : fail_at]}), {mode}: {error!r}"
    landed = commits_of(table, txn_id)
    assert _state(table.root) == states[bool(landed)], where
    if error is None:
        assert landed, where
    elif not isinstance(error, CommitOutcomeUnknownError):
        assert not landed, where
    _run(operation, table, txn_id=txn_id, since_version=since)
    assert _state(table.root) == states[1], where
    assert len(commits_of(table, txn_id)) == 1, where
    check_whole(table)
    return error


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", one_in(2, OPERATIONS))
def test_an_operation_whose_store_fails_happens_completely_or_not_at_all(name: str):
    operation = OPERATIONS[name]
    made = operation.table(_uri()).store
    store = FaultyStore(copy_store(made, _uri()))
    _run(operation, store)
    states = _state(made.root), _state(store.root)
    assert states[0] != states[1]
    errors = [_check(operation, made, states, *fault) for fault in faults(store.calls)]
    assert None in errors  # a failure after the commit does not fail the command
    assert any(errors)


def test_every_operation_that_needs_no_spark_is_tried():
    tried = {type(operation.parsed) for operation in OPERATIONS.values()} | {Vacuum}
    assert tried | ON_SPARK == {*RUN}, "each needs a line in OPERATIONS"


def _vacuum(command: Vacuum, store: Store, txn_id: str) -> None:
    long_after = FakeClock(ms=NOW + 24 * 365 * 50 * HOUR)  # everything has expired by then
    run(command, DeltaTable(store, clock=long_after), None, txn_id=txn_id)


def _check_vacuum(command: Vacuum, made: Store, fail_at: int, mode: str) -> EngineError | None:
    table, txn_id, error = copy_store(made, _uri()), str(uuid.uuid4()), None
    before = _state(table.root)
    try:
        _vacuum(command, FaultyStore(table, fail_at=fail_at, mode=mode), txn_id)
    except EngineError as raised:
        error = raised
    assert _state(table.root) == before
    _vacuum(command, table, txn_id)
    assert _state(table.root) == before
    check_whole(table)
    parameters = DeltaTable(table).history(1)[0].operation_parameters
    assert parameters is not None
    assert "COMPLETED" in parameters["status"]
    kept = {add_file.path for add_file in DeltaTable(table).snapshot().add_files()}
    there = {file.path for file in table.list_all() if not file.path.startswith("_delta")}
    assert there == kept | ({STRAY} if command.lite else set())
    return error


@pytest.mark.timeout(120)
@pytest.mark.parametrize("lite", [False, True])
def test_vacuum_loses_nothing_under_any_fault_and_completes_when_run_again(lite: bool):
    command = Vacuum(lite=lite)
    made = _create_loaded(_uri(), **{"delta.enableDeletionVectors": "false"}).store
    made.put(STRAY, b"PAR1")
    store = FaultyStore(copy_store(made, _uri()))
    _vacuum(command, store, "once")
    errors = [_check_vacuum(command, made, *fault) for fault in faults(store.calls)]
    assert any(errors)
