"""Operations on Spark with a store that fails at writes: wholly done, or not at all.

The writes are deletion vectors, the commit, and the work after it. Afterwards the files that a failed
run had staged are gone, and the files that the log names exist.
"""

import shutil
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.actions.files import AddCDCFile
from engine.commands.model import Create
from engine.commands.sql import parse_statement
from engine.errors import CommitOutcomeUnknownError, EngineError
from engine.log.commits import list_versions, read_commit
from engine.log.file_table import removes_of
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.operations.vacuum_plan import paths_of
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.snapshot.change_feed import read_changes
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from tests.engine.faults.states import check_whole, commits_of, state_of
from tests.engine.faults.stores import FaultyStore, faults
from tests.engine.transaction.tables import FakeClock

pytestmark = [pytest.mark.spark, pytest.mark.stress, pytest.mark.timeout(300)]

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
FEED = {"delta.enableChangeDataFeed": "true"}
STATEMENTS = {
    "update by vectors": ("vectors", "UPDATE t SET name = 'new' WHERE id % 3 = 0"),
    "merge by rewriting": (
        "rewriting",
        "MERGE INTO t USING (VALUES (1, 'one'), (9000, 'nine')) AS s (id, name) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    ),
    "optimize": ("vectors", "OPTIMIZE t"),
    "overwrite": ("rewriting", "INSERT INTO t REPLACE WHERE id < 100 VALUES (50, 'x')"),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table with deletion vectors too large for the log, and one that rewrites files."""
    folder = tmp_path_factory.mktemp("faults")
    many = ", ".join(f"({n}, 'n')" for n in range(3000))
    for name, vectors in (("vectors", "true"), ("rewriting", "false")):
        table = DeltaTable(LocalStore(folder / name))
        properties = {"delta.enableDeletionVectors": vectors, "delta.checkpointInterval": "3"}
        create = Create(schema=SCHEMA, properties=properties | FEED)
        run(create, table, spark)
        for rows in (many, "(5000, 'm')"):
            run(parse_statement(f"INSERT INTO t VALUES {rows}"), table, spark)  # noqa: S608
    return folder


def _try(spark: SparkSession, store: FaultyStore, statement: str, **options: object) -> None:
    table = DeltaTable(store, clock=FakeClock(ms=1_800_000_000_000))
    # looks at new commits depend on how long Spark takes: the calls would have other numbers each time
    settled = RunOptions(in_process_bytes=0, early_conflicts=False, **options)  # type: ignore[arg-type]
    run(parse_statement(statement), table, spark, settled)


def _sample_faults(calls: list[str]) -> list[tuple[int, str]]:
    """Return every write in every mode, and the last read before the commit."""
    commit = next(n for n, what in enumerate(calls, 1) if what.startswith("create _delta_log"))
    writes = [fault for fault in faults(calls) if calls[fault[0] - 1].startswith(("create", "put"))]
    after = [fault for fault in writes if fault[0] > commit]
    return [(commit - 1, "before its effect"), *(f for f in writes if f[0] <= commit), *after[:2]]


def _list_named_files(store: LocalStore) -> set[str]:
    """Return every file that the log names, including change files and tombstones."""
    state = DeltaTable(store).snapshot().state
    files = [*DeltaTable(store).snapshot().add_files(), *removes_of(state.tombstones)]
    named = {path for file in files for path in paths_of(store.root, file)}
    for version in list_versions(store):
        changes = (a for a in read_commit(store, version).actions if isinstance(a, AddCDCFile))
        named |= {path for change in changes for path in paths_of(store.root, change)}
    return named


def _copy_store(made: Path, folder: Path) -> LocalStore:
    place = folder / uuid.uuid4().hex
    shutil.copytree(made, place)
    return LocalStore(place)


def _check(
    spark: SparkSession,
    store: LocalStore,
    statement: str,
    fault: tuple[int, str],
    states: list[str],
) -> EngineError | None:
    """Run the statement on a failing store, then again, and check every guarantee."""
    txn_id, error = str(uuid.uuid4()), None
    try:
        failing = FaultyStore(store, fail_at=fault[0], mode=fault[1])
        _try(spark, failing, statement, txn_id=txn_id)
    except EngineError as raised:
        error = raised
    landed = bool(commits_of(store, txn_id))
    assert landed or error is not None
    assert not landed or error is None or isinstance(error, CommitOutcomeUnknownError)
    assert state_of(DeltaTable(store).snapshot()) == states[landed]
    check_whole(store)
    there = {file.path for file in store.list_all() if not file.path.startswith("_delta_log")}
    assert _list_named_files(store) == there
    if not landed:
        _try(spark, FaultyStore(store), statement, txn_id=txn_id, since_version=2)
    assert state_of(DeltaTable(store).snapshot()) == states[1]
    assert len(commits_of(store, txn_id)) == 1
    return error


@pytest.mark.parametrize("name", STATEMENTS)
def test_an_operation_on_spark_happens_completely_or_not_at_all(
    spark: SparkSession, tables: Path, tmp_path: Path, name: str
):
    made, statement = STATEMENTS[name]
    whole = _copy_store(tables / made, tmp_path)
    states = [state_of(DeltaTable(whole).snapshot())]
    recording = FaultyStore(whole)
    _try(spark, recording, statement)
    states.append(state_of(DeltaTable(whole).snapshot()))
    assert states[0] != states[1]
    changes = read_changes(DeltaTable(whole), 3).num_rows
    has_vectors = any(file.path.endswith(".bin") for file in whole.list_all())
    assert has_vectors == (name == "update by vectors")
    errors = []
    for fault in _sample_faults(recording.calls):
        store = _copy_store(tables / made, tmp_path)
        errors.append(_check(spark, store, statement, fault, states))
        assert read_changes(DeltaTable(store), 3).num_rows == changes
    assert any(errors)
    assert None in errors
