"""Deep clones: tables with copies of another table's files, each copied once over all attempts."""

import os
import shutil
from pathlib import Path

import pytest

from engine.commands.model import Clone, Vacuum
from engine.errors import (
    ConcurrentAppendException,
    DataFileError,
    OperationCancelledError,
    StorageError,
)
from engine.log.commits import read_commit
from engine.operations.define.clone import STAGE, TRUSTED_MS
from engine.operations.run import run
from engine.operations.write_rows import removal
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.operations.cloned_tables import (
    SCHEMA,
    append,
    delete_first_row,
    files,
    handle,
    ids,
    source_table,
)

NOW = Vacuum(retention_hours=0, override_retention=True)


class WatchedStore(LocalStore):
    """A store that counts the files copied into it, and fails at one."""

    def __init__(self, root, fail_at=0):
        super().__init__(root)
        self.copied, self._fail_at = [], fail_at

    def put_stream(self, path, pieces):
        if path.endswith((".parquet", ".bin")):
            self.copied.append(path)
            if len(self.copied) == self._fail_at:
                msg = "The disk is full."
                raise StorageError(msg)
        super().put_stream(path, pieces)


@pytest.fixture
def source(tmp_path):
    return source_table(tmp_path)


@pytest.fixture
def target(tmp_path):
    return watch_table(tmp_path)


def watch_table(tmp_path, fail_at=0):
    return DeltaTable(WatchedStore(tmp_path / "a copy", fail_at))


def clone(target, source, **options):
    parts = {name: options.pop(name) for name in ("replace", "version") if name in options}
    options.setdefault("resolve", lambda _: source)
    return run(Clone(source.uri, deep=True, **parts), target, None, **options)


def test_a_deep_clone_outlives_its_source(source, target, rows_elsewhere):
    size = source.snapshot().size_bytes
    result = clone(target, source)
    assert (result.metrics["numCopiedFiles"], result.metrics["copiedFilesSize"]) == (2, size)
    info = read_commit(target.store, 0).commit_info
    assert (info.operation, info.operation_parameters) == (
        "CLONE",
        {"source": f"delta.`{source.uri}`", "sourceVersion": 3, "isShallow": False},
    )
    shutil.rmtree(source.uri)
    assert list(rows_elsewhere(target).values()) == [[(2, "p2"), (3, "p3")]] * 3
    assert len(target.store.copied) == 3, "two files of rows and a deletion vector"


def test_cloning_again_copies_only_new_files(source, target):
    clone(target, source, version=2)
    before = list(target.store.copied)
    append(source, [4])
    result = clone(target, source, replace=True)
    assert ids(target) == ids(source) == [2, 3, 4]
    assert (result.metrics["numCopiedFiles"], result.metrics["numRemovedFiles"]) == (1, 1)
    assert len(target.store.copied) == len(before) + 2, "a file, and the vector of an old one"
    assert ids(target, version=0) == [1, 2, 3]
    assert clone(target, source, replace=True).version is None


def test_an_ordinary_table_is_replaced_and_a_shallow_clone_becomes_deep(source, tmp_path, target):
    shallow = handle(tmp_path, "shallow")
    run(Clone(source.uri), shallow, None)
    append(shallow, [9])
    deep = clone(target, shallow)
    assert deep.metrics["numCopiedFiles"] == 3
    clone(shallow, source, replace=True)
    shutil.rmtree(source.uri)
    assert (ids(target), ids(shallow)) == ([2, 3, 9], [2, 3])


def test_an_interrupted_run_continues_where_it_stopped(source, tmp_path):
    append(source, [4])
    broken = watch_table(tmp_path, fail_at=3)
    with pytest.raises(StorageError):
        clone(broken, source)
    there = {Path(file).name for file in files(broken)}
    target = watch_table(tmp_path)
    clone(target, source)
    assert ids(target) == [2, 3, 4]
    assert there
    assert not there & {Path(path).name for path in target.store.copied}
    assert len(there) + len(target.store.copied) == 4


def test_copies_that_a_vacuum_might_be_removing_are_made_again(source, tmp_path):
    with pytest.raises(StorageError):
        clone(watch_table(tmp_path, fail_at=3), source)
    target = watch_table(tmp_path)
    for file in files(target):
        old_s = Path(file).stat().st_mtime - TRUSTED_MS / 1000 - 60
        os.utime(file, (old_s, old_s))
    clone(target, source)
    assert len(target.store.copied) == 3


def test_a_cancelled_clone_commits_nothing_and_the_next_one_ends_it(source, target):
    def cancel(progress):
        if progress.stage == STAGE and progress.done:
            msg = "Cancelled."
            raise OperationCancelledError(msg)

    with pytest.raises(OperationCancelledError):
        clone(target, source, progress=cancel)
    assert not (Path(target.uri) / "_delta_log").exists()
    assert clone(target, source).version == 0
    assert ids(target) == [2, 3]


class Rival(TransactionObserver):
    """A rival that appends to the table once, after its read version is fixed."""

    def __init__(self, table):
        self._table, self._is_done = table, False

    def staged(self, txn):  # noqa: ARG002 - as the observer's
        if not self._is_done:
            self._is_done = True
            append(self._table, [7])


def test_any_commit_to_the_clone_meanwhile_wins_and_a_retry_copies_nothing_again(
    source, target, tmp_path
):
    clone(target, source, version=1)
    rival = handle(tmp_path, "a copy")
    with pytest.raises(ConcurrentAppendException):
        clone(target, source, replace=True, observer=Rival(rival))
    copied = len(target.store.copied)
    result = clone(target, source, replace=True, observer=Rival(rival), retries=1)
    assert len(target.store.copied) == copied
    assert (ids(target), result.metrics["numRemovedFiles"]) == ([2, 3], 3)


def test_files_that_were_vacuumed_cannot_be_cloned(source, target):
    txn = source.start_transaction()
    txn.stage(*[removal(add) for add in source.snapshot().add_files()])
    txn.commit("DELETE")
    run(NOW, source, None)
    with pytest.raises(DataFileError, match="is missing"):
        clone(target, source, version=3)
    assert not target.store.copied


def test_a_vacuum_of_the_clone_keeps_its_copies_and_deletes_those_of_a_failed_run(source, tmp_path):
    with pytest.raises(StorageError):
        clone(watch_table(tmp_path, fail_at=3), source)
    target = watch_table(tmp_path)
    clone(target, source, version=1)
    run(NOW, target, None)
    assert (ids(target), len(list(Path(target.uri).glob("*.parquet")))) == ([1, 2], 1)


def test_odd_partitions_keep_their_directories(tmp_path, target):
    source = DeltaTable.create(str(tmp_path / "odd"), SCHEMA, partition_columns=["p"])
    append(source, [1])
    (add,) = source.snapshot().add_files()
    old, new = Path(source.uri, add.path), Path(source.uri, "p=a%2Fb #1", "x.parquet")
    new.parent.mkdir()
    old.rename(new)
    txn = source.start_transaction()
    txn.stage(removal(add), type(add)(**{**_fields(add), "path": "p=a%252Fb%20%231/x.parquet"}))
    txn.commit("RENAME")
    clone(target, source)
    assert ids(target) == [1]
    assert target.snapshot().add_files()[0].path.startswith("p=a%252Fb%20%231/")


def _fields(add):
    return {name: getattr(add, name) for name in add.__struct_fields__}


def test_a_clone_copies_between_stores(source):
    target = DeltaTable(MemoryStore("memory://deep-clone"))
    clone(target, source)
    assert ids(DeltaTable.open("memory://deep-clone")) == [2, 3]


def test_a_dry_run_counts_the_files_that_would_be_copied(source, target):
    plan = clone(target, source, dry_run=True).plan
    assert {file.reason for file in plan.files} == {"copied"}
    assert "copy 2 files of version 3" in plan.summary
    assert not Path(target.uri).exists()


def test_rows_deleted_since_need_a_vector_and_no_rows(tmp_path, target):
    source = DeltaTable.create(str(tmp_path / "s"), SCHEMA)
    append(source, [1, 2])
    clone(target, source)
    delete_first_row(source)
    result = clone(target, source, replace=True)
    assert (ids(target), result.metrics["numCopiedFiles"]) == ([2], 0)
    assert target.store.copied[-1].endswith(".bin")
