"""Tables with catalog-managed commits: opened by name, written through the catalog, refused by path."""

import json
import subprocess
import sys
import threading
import uuid

import pyarrow as pa
import pytest

from engine.actions.table import Metadata, Protocol
from engine.catalog.catalog import CatalogTableName
from engine.catalog.embedded import EmbeddedCatalog
from engine.errors import (
    CatalogDependencyError,
    CatalogManagedTableError,
    CatalogOperationError,
    CatalogTableMissingError,
    CommitOutcomeUnknownError,
    ConcurrentDeleteReadException,
    FileExistsAlreadyError,
    MalformedLogError,
    RequestError,
    StorageError,
    StorageOutcomeUnknownError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
    UnsupportedFeatureError,
)
from engine.log.management import LOG_CLEANUP, OPTIMIZE
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.operations.stream_batches import batch_writer
from engine.snapshot.post_commit import checkpoint
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.catalog.catalogs import NAME, ModelCatalog
from tests.engine.transaction.tables import SCHEMA, FakeClock, append, paths_of, removal_of

LOG = "_delta_log"


@pytest.fixture
def model() -> ModelCatalog:
    return ModelCatalog()


def _new(catalog, **options) -> DeltaTable:
    return DeltaTable.create(NAME, SCHEMA, catalog=catalog, **options)


def _files(table: DeltaTable, directory: str = LOG) -> set[str]:
    return {file.name for file in table.store.files.list_from(directory, "")}


def _values(table: DeltaTable) -> list[int]:
    return sorted(table.snapshot().to_arrow().column("x").to_pylist())


def test_a_new_table_has_the_features_that_the_protocol_requires(model):
    table = _new(model)
    protocol = table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert "catalogManaged" in protocol.reader_features
    assert {"catalogManaged", "inCommitTimestamp"} <= set(protocol.writer_features)
    append(table, "a")
    first = json.loads(table.store.read(f"{LOG}/{1:020}.json").split(b"\n")[0])["commitInfo"]
    assert first["txnId"]
    assert first["inCommitTimestamp"]
    assert model.resolve_table(CatalogTableName.parse(NAME)).table_id == table.store.table.table_id


def test_a_commit_is_staged_ratified_and_published_with_the_same_content(model):
    table = _new(model)
    append(table, "a")
    (commit,) = model.tables[table.store.table.table_id].ratified.values()
    staged = table.store.files.read(commit.path)
    assert staged == table.store.files.read(f"{LOG}/{1:020}.json")
    assert commit.size_bytes == len(staged)


def test_by_its_path_a_table_is_neither_read_nor_written(model):
    table = _new(model)
    append(table, "a")
    for use in (
        lambda: DeltaTable.open(table.uri),
        lambda: DeltaTable.definition_of(table.uri),
        lambda: paths_of(table),
        lambda: DeltaTable.create(table.uri, SCHEMA),
    ):
        with pytest.raises((CatalogManagedTableError, TableExistsError)) as refused:
            use()
    with pytest.raises(CatalogManagedTableError, match="Unity Catalog") as refused:
        DeltaTable.open(table.uri)
    assert refused.value.facts()["code"] == (
        "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
    )
    assert isinstance(refused.value, UnsupportedFeatureError)


def test_a_plain_table_does_not_become_managed_by_its_path():
    place = f"memory://plain/{uuid.uuid4()}"
    asked = {"delta.feature.catalogManaged": "supported", "delta.enableInCommitTimestamps": "true"}
    with pytest.raises(CatalogDependencyError):
        DeltaTable.create(place, SCHEMA, properties=asked)
    table = DeltaTable.create(place, SCHEMA)
    with pytest.raises(CatalogDependencyError):
        run("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')", table)
    assert table.version() == 0


def test_a_managed_table_stays_managed(model):
    table = _new(model)
    for statement in (
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('delta.enableInCommitTimestamps')",
        "ALTER TABLE t SET TBLPROPERTIES ('io.unitycatalog.tableId' = 'other')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('io.unitycatalog.tableId')",
    ):
        with pytest.raises(CatalogDependencyError):
            run(statement, table)
    snapshot = table.snapshot()
    plain = Protocol(min_reader_version=1, min_writer_version=7, writer_features=["appendOnly"])
    txn = table.start_transaction()
    txn.stage(plain)
    with pytest.raises((CatalogDependencyError, RequestError)):
        txn.commit("UPGRADE PROTOCOL")
    assert table.version() == snapshot.version == 0
    run("ALTER TABLE t SET TBLPROPERTIES ('user.note' = 'kept')", table)
    assert table.snapshot().metadata.configuration["user.note"] == "kept"


def test_a_commit_named_by_the_catalog_overrides_a_published_one_and_later_ones_are_ignored(model):
    table = _new(model)
    append(table, "a")
    model.tables[table.store.table.table_id].published = 0
    files = table.store.files
    stray = files.read(f"{LOG}/{1:020}.json").replace(b'"path":"a"', b'"path":"b"')
    files.put(f"{LOG}/{1:020}.json", stray)
    files.put(f"{LOG}/{2:020}.json", stray.replace(b'"path":"b"', b'"path":"c"'))
    files.put(f"{LOG}/{2:020}.checkpoint.parquet", b"PAR1")
    files.put(f"{LOG}/{1:020}.{2:020}.compacted.json", stray)
    reader = DeltaTable.open(NAME, catalog=model)
    assert reader.version() == 1
    assert [add.path for add in reader.snapshot().add_files()] == ["a"]
    assert [info.version for info in reader.history()] == [1, 0]


def test_maintenance_is_refused_unless_the_catalog_permits_it(model):
    table = _new(model)
    run("INSERT INTO t VALUES (1)", table)
    for statement in ("OPTIMIZE t", "VACUUM t", "REORG TABLE t APPLY (PURGE)"):
        with pytest.raises(CatalogOperationError):
            run(statement, table, dry_run=True)
        with pytest.raises(CatalogOperationError) as refused:
            run(statement, table)
        assert refused.value.catalog == "the model"
        assert refused.value.operation == statement.split()[0]
    with pytest.raises(CatalogOperationError):
        run("ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY", table)
    for operation in ("OPTIMIZE", "VACUUM START", "REORG"):
        with pytest.raises(CatalogOperationError):
            table.start_transaction().commit(operation, even_if_empty=True)
    permitting = ModelCatalog(permitted=frozenset({OPTIMIZE}))
    other = _new(permitting)
    other.start_transaction().commit("OPTIMIZE", even_if_empty=True)
    assert other.version() == 1
    with pytest.raises(CatalogOperationError):
        run("VACUUM t", other)


def test_iceberg_metadata_is_refused_because_it_is_read_by_path(model):
    with pytest.raises(CatalogOperationError, match="Iceberg"):
        _new(
            model,
            properties={
                "delta.universalFormat.enabledFormats": "iceberg",
                "delta.enableIcebergCompatV2": "true",
                "delta.columnMapping.mode": "name",
            },
        )


class Unpublishing:
    """Files that cannot be copied into the log."""

    def __init__(self, files) -> None:
        self.inner, self.fails = files, True

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def put_if_absent(self, path: str, data: bytes) -> None:
        if self.fails and path.startswith(f"{LOG}/0") and path.endswith("0.json"):
            raise StorageError(path)
        self.inner.put_if_absent(path, data)


def test_an_unpublished_version_gets_no_checkpoint_and_is_read_from_its_staged_file(model):
    table = _new(model, properties={"delta.logCompactionInterval": "2"})
    table.store.files = Unpublishing(table.store.files)
    for number in range(1, 12):
        append(table, f"f{number}")
    names = _files(table)
    assert f"{9:020}.json" in names
    assert not {f"{10:020}.json", f"{11:020}.json"} & names, "in order"
    assert not any("checkpoint" in name or f"{10:020}.compacted" in name for name in names)
    assert DeltaTable.open(NAME, catalog=model).version() == 11
    table.store.files.fails = False
    for number in range(12, 21):
        append(table, f"f{number}")
    names = _files(table)
    assert {f"{version:020}.json" for version in range(21)} <= names
    assert f"{20:020}.checkpoint.parquet" in names
    reader = DeltaTable.open(NAME, catalog=model)
    assert len(reader.snapshot().add_files()) == 20
    assert [info.version for info in reader.history()] == [*range(20, -1, -1)]


def test_a_checkpoint_of_an_unpublished_version_is_refused(model):
    table = _new(model)
    table.store.files = Unpublishing(table.store.files)
    for number in range(1, 11):
        append(table, f"f{number}")
    with pytest.raises(StorageError):
        checkpoint(table.snapshot(), 0)
    assert not any("checkpoint" in name for name in _files(table))


class RepeatedWrite:
    """Files whose client repeats a write after a lost response, and then finds its own file."""

    def __init__(self, files) -> None:
        self.inner = files

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.inner.put_if_absent(path, data)
        if "_staged_commits" in path:
            raise FileExistsAlreadyError(path)


def test_a_staged_file_whose_write_was_repeated_is_the_proposed_one(model):
    table = _new(model)
    table.store.files = RepeatedWrite(table.store.files)
    append(table, "a")
    (commit,) = model.tables[table.store.table.table_id].ratified.values()
    assert _files(table, f"{LOG}/_staged_commits") == {commit.file_name}


class NameTaken(RepeatedWrite):
    """Files in which another client has taken the first staged name."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        if "_staged_commits" in path and not [*self.inner.list_from(f"{LOG}/_staged_commits", "")]:
            self.inner.put_if_absent(path, b"of another client")
        self.inner.put_if_absent(path, data)


def test_a_staged_name_that_another_client_has_is_left_alone(model):
    table = _new(model)
    table.store.files = NameTaken(table.store.files)
    append(table, "a")
    (commit,) = model.tables[table.store.table.table_id].ratified.values()
    others = _files(table, f"{LOG}/_staged_commits") - {commit.file_name}
    assert [table.store.files.read(f"{LOG}/_staged_commits/{name}") for name in others] == [
        b"of another client"
    ]
    assert [add.path for add in table.snapshot().add_files()] == ["a"]


class ForgetfulRegistrar:
    """A model that loses its answer about a new table's name, once or always."""

    def __init__(self, model: ModelCatalog, *, takes_effect: bool, lost: int) -> None:
        self.model, self.takes_effect, self.lost = model, takes_effect, lost

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def register_table(self, staged, first) -> None:
        self.lost -= 1
        if self.lost < 0 or self.takes_effect:
            self.model.register_table(staged, first)
        if self.lost >= 0:
            raise StorageOutcomeUnknownError(NAME)


def test_a_lost_answer_about_a_new_name_is_no_refusal():
    for takes_effect in (True, False):
        catalog = ForgetfulRegistrar(ModelCatalog(), takes_effect=takes_effect, lost=1)
        table = _new(catalog, clock=FakeClock())
        assert append(table, "a") == 1
    catalog = ForgetfulRegistrar(ModelCatalog(), takes_effect=False, lost=99)
    with pytest.raises(CommitOutcomeUnknownError):
        _new(catalog, clock=FakeClock())


def test_the_log_is_cleaned_only_with_the_catalogs_permission(model):
    expired = {"delta.logRetentionDuration": "interval 0 days", "delta.checkpointInterval": "2"}
    for permitted, is_kept in ((frozenset(), True), (frozenset({LOG_CLEANUP}), False)):
        table = _new(ModelCatalog(permitted=permitted), properties=expired)
        for number in range(1, 7):
            append(table, f"f{number}")
        table.clock = Tomorrow()
        append(table, "f7")
        append(table, "f8")
        assert (f"{0:020}.json" in _files(table)) is is_kept


class Tomorrow:
    def now_ms(self) -> int:
        return 4_000_000_000_000

    def monotonic_s(self) -> float:
        return 0.0

    def pause(self, seconds: float) -> None: ...


def test_commits_are_published_when_a_catalog_is_full():
    model = ModelCatalog(unpublished=2)
    table = _new(model)
    for number in range(1, 12):
        append(DeltaTable.open(NAME, catalog=model), f"f{number}")
    managed = model.tables[table.store.table.table_id]
    assert managed.latest == 11
    assert managed.published >= 9


def test_two_updates_of_different_rows_of_a_file_both_commit_and_of_one_row_only_one(model):
    table = _new(model)
    run("INSERT INTO t VALUES (1), (2), (3)", table)
    first, second = (DeltaTable.open(NAME, catalog=model) for _ in range(2))
    before = second.snapshot()
    run("UPDATE t SET x = 10 WHERE x = 1", first)
    run("UPDATE t SET x = 20 WHERE x = 2", second)
    assert _values(table) == [3, 10, 20]
    txn = second.start_transaction(version=before.version)
    txn.read_where("x = 1", every_match_changes=True)
    (file,) = before.add_files()
    txn.stage(removal_of(file.path))
    with pytest.raises(ConcurrentDeleteReadException):
        txn.commit("DELETE")
    staged = _files(table, f"{LOG}/_staged_commits")
    ratified = model.tables[table.store.table.table_id].ratified.values()
    assert staged == {commit.file_name for commit in ratified}, "no rejected file is left"


class LateThenFull:
    """A model whose first ratification takes effect late; until then it claims to be full."""

    def __init__(self, model: ModelCatalog) -> None:
        self.model, self.late = model, []

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def ratify(self, table, proposal, published_version) -> None:
        if self.late:
            raise UnpublishedLimitError(NAME)
        self.late.append(lambda: self.model.ratify(table, proposal, published_version))
        raise StorageOutcomeUnknownError(NAME)


def test_after_an_unknown_outcome_no_refusal_is_final(model):
    table = _new(model)
    catalog = LateThenFull(model)
    writer = DeltaTable.open(NAME, catalog=catalog, clock=FakeClock())
    with pytest.raises(CommitOutcomeUnknownError):
        append(writer, "a")
    catalog.late[0]()
    assert [add.path for add in table.snapshot().add_files()] == ["a"]
    (commit,) = model.tables[table.store.table.table_id].ratified.values()
    assert table.store.files.stat(commit.path) is not None


class RivalFirst:
    """A model in which another client's commit is ratified, published and forgotten first."""

    def __init__(self, model: ModelCatalog) -> None:
        self.model, self.is_due = model, True

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def ratify(self, table, proposal, published_version) -> None:
        if self.is_due:
            self.is_due = False
            rival = DeltaTable.open(NAME, catalog=self.model)
            self.model.report_published(table, append(rival, "rival"))
        self.model.ratify(table, proposal, published_version)


def test_a_rejected_commit_is_distinguished_from_a_published_one_that_the_catalog_forgot(model):
    table = _new(model)
    append(table, "a")
    writer = DeltaTable.open(NAME, catalog=RivalFirst(model))
    assert append(writer, "b") == 3
    assert sorted(add.path for add in table.snapshot().add_files()) == ["a", "b", "rival"]
    staged = _files(table, f"{LOG}/_staged_commits")
    ratified = model.tables[table.store.table.table_id].ratified.values()
    assert staged == {commit.file_name for commit in ratified}


def test_a_dropped_table_is_missing_for_its_writers(model):
    table = _new(model)
    append(table, "a")
    txn = table.start_transaction()
    model.drop_table(CatalogTableName.parse(NAME))
    with pytest.raises(CatalogTableMissingError):
        txn.commit("WRITE", even_if_empty=True)
    with pytest.raises(TableNotFoundError):
        DeltaTable.open(NAME, catalog=model)
    again = _new(model)
    assert again.version() == 0
    with pytest.raises(CatalogTableMissingError):
        table.version()


def test_two_creations_of_a_name_end_with_one_table(model):
    _new(model)
    with pytest.raises(TableExistsError):
        _new(model)
    assert DeltaTable.open(NAME, catalog=model).version() == 0


@pytest.mark.parametrize("name", ["t", "a.b", "a.b.c.d", "", "a..b", "a.b.", "a.`b", "a.b.c`"])
def test_a_name_has_three_parts(name, model):
    with pytest.raises(RequestError):
        DeltaTable.open(name, catalog=model)


def test_a_part_of_a_name_may_be_quoted():
    for text in ("a.b.c", "a.`b.c`.d", "a.b.`c``d`"):
        assert str(CatalogTableName.parse(text)) == text
    assert CatalogTableName.parse("a.`b.c`.d").schema == "b.c"
    assert str(CatalogTableName.parse("`a`.`b`.`c`")) == "a.b.c"


def test_a_table_that_its_protocol_calls_plain_is_not_written_through_a_catalog(model):
    table = _new(model)
    first = table.store.files.read(f"{LOG}/{0:020}.json")
    table.store.files.put(f"{LOG}/{0:020}.json", first.replace(b'"catalogManaged",', b""))
    with pytest.raises(MalformedLogError, match="catalogManaged"):
        DeltaTable.open(NAME, catalog=model)


def test_versions_of_several_tables_are_of_one_moment(model):
    one = _new(model)
    other = DeltaTable.create("main.default.other", SCHEMA, catalog=model)
    append(one, "a")
    append(one, "b")
    append(other, "a")
    assert model.read_versions([one.store.table, other.store.table]) == (2, 1)


def test_metadata_of_a_commit_reaches_the_catalog(model):
    proposals = []
    ratify = model.ratify
    model.ratify = lambda table, proposal, published: (
        proposals.append(proposal),
        ratify(table, proposal, published),
    )[1]
    table = _new(model)
    run("ALTER TABLE t ADD COLUMNS (y STRING)", table)
    append(table, "a")
    assert [isinstance(proposal.metadata, Metadata) for proposal in proposals] == [True, False]


def test_threads_that_update_rows_of_one_file_all_land(tmp_path):
    catalog = EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "lake"))
    table = _new(catalog)
    rows = pa.table({"x": pa.array(range(24), pa.int64())})
    run("INSERT INTO t TABLE s", table, sources={"s": rows})
    failures = []

    def update(first: int) -> None:
        writer = DeltaTable.open(NAME, catalog=catalog)
        for value in range(first, 24, 6):
            try:
                run(f"UPDATE t SET x = {value + 100} WHERE x = {value}", writer)  # noqa: S608 - numbers
            except Exception as error:  # noqa: BLE001 - any failure is reported
                failures.append(error)

    threads = [threading.Thread(target=update, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    reader = DeltaTable.open(NAME, catalog=catalog)
    assert _values(reader) == [*range(100, 124)]
    assert reader.version() == 25


_UPDATE = """
import sys
from engine.catalog.embedded import EmbeddedCatalog
from engine.operations.run import run
from engine.snapshot.post_commit import checkpoint
from engine.table import DeltaTable
place, first = sys.argv[1], int(sys.argv[2])
catalog = EmbeddedCatalog(f"{place}/catalog.db", f"{place}/lake")
table = DeltaTable.open("main.default.t", catalog=catalog)
for value in range(first, 18, 3):
    run(f"UPDATE t SET x = {value + 100} WHERE x = {value}", table)
"""


def test_processes_that_update_rows_of_one_file_all_land(tmp_path):
    catalog = EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "lake"))
    table = _new(catalog)
    rows = pa.table({"x": pa.array(range(18), pa.int64())})
    run("INSERT INTO t TABLE s", table, sources={"s": rows})
    started = [
        subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-c", _UPDATE, str(tmp_path), str(first)], stderr=subprocess.PIPE
        )
        for first in range(3)
    ]
    assert [process.communicate()[1] for process in started] == [b""] * 3
    reader = DeltaTable.open(NAME, catalog=catalog)
    assert _values(reader) == [*range(100, 118)]
    commits = catalog.list_commits(reader.store.table)
    assert commits.latest_version == reader.version() == 19
    assert commits.check() == commits


class _OtherWriter(TransactionObserver):
    """Another writer commits a statement when the transaction has staged everything, once."""

    def __init__(self, catalog, statement):
        self.catalog, self.statements = catalog, [statement] if statement else []

    def staged(self, _txn):
        for statement in [self.statements.pop() for _ in self.statements]:
            run(statement, DeltaTable.open(NAME, catalog=self.catalog))


@pytest.mark.timeout(300)
def test_statements_on_spark_commit_and_rebase_through_the_catalog(tmp_path, spark):
    catalog = EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "lake"))
    table = _new(catalog)
    moves = "UPDATE t SET x = {} WHERE x = {}".format
    for statement, other, values in (
        ("INSERT INTO t SELECT id FROM (VALUES 1, 2, 3, 4) AS s(id)", "", [1, 2, 3, 4]),
        (moves(10, 1), moves(20, 2), [3, 4, 10, 20]),
        ("DELETE FROM t WHERE x = 3", moves(40, 4), [10, 20, 40]),
        (
            "MERGE INTO t USING (SELECT x + 1 AS x FROM t WHERE x = 10) s ON t.x = s.x - 1 "
            "WHEN MATCHED THEN UPDATE SET x = s.x WHEN NOT MATCHED THEN INSERT *",
            "",
            [11, 20, 40],
        ),
        ("OPTIMIZE t", moves(41, 40), [11, 20, 41]),
        (
            "BEGIN ATOMIC INSERT INTO t SELECT x + 100 FROM t WHERE x = 11; "
            "DELETE FROM t WHERE x = 11; END",
            moves(42, 41),
            [20, 42, 111],
        ),
        ("RESTORE t TO VERSION AS OF 1", "", [1, 2, 3, 4]),
    ):
        options = RunOptions(in_process_bytes=0, observer=_OtherWriter(catalog, other))
        run(statement, table, spark, options)
        assert _values(DeltaTable.open(NAME, catalog=catalog)) == values, statement
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    query = stream.selectExpr("value AS x").writeStream.foreachBatch(batch_writer(table))
    query.option("checkpointLocation", str(tmp_path / "at")).trigger(
        once=True
    ).start().awaitTermination()
    assert _values(DeltaTable.open(NAME, catalog=catalog)) == [0, 1, 1, 2, 2, 3, 4]
