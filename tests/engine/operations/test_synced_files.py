"""Files of a small statement survive a crash of the machine before its commit exists, at minimal cost."""

import os

import pytest

from engine.commands.sql import parse_statement
from engine.log.paths import LOG_DIRECTORY, commit_path
from engine.operations.run import run
from engine.schema.types import LONG, StructField, StructType
from engine.table import DeltaTable


@pytest.fixture
def table(tmp_path):
    schema = StructType((StructField("id", LONG), StructField("v", LONG)))
    table = DeltaTable.create(str(tmp_path), schema)
    run(parse_statement("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"), table, None)
    return table


@pytest.mark.parametrize(
    ("statement", "new_files"),
    [
        ("INSERT INTO t VALUES (4, 4)", 1),
        ("UPDATE t SET v = 5 WHERE id = 2", 1),
        ("DELETE FROM t WHERE id = 2", 0),
        ("MERGE INTO t USING (VALUES (1, 9), (7, 7)) AS s (id, v) ON t.id = s.id"
         " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v)"
         " VALUES (s.id, s.v)", 1),
    ],
)  # fmt: skip
def test_files_and_their_directory_are_synced_once_each_before_the_commit_is(
    table, monkeypatch, statement, new_files
):
    sync, synced = os.fsync, []

    def watch_sync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    before = set(table.snapshot().files().column("path").to_pylist())
    monkeypatch.setattr(os, "fsync", watch_sync)
    version = run(parse_statement(statement), table, None).version
    added = set(table.snapshot().files().column("path").to_pylist()) - before
    commit, log, root = (
        os.stat(table.store.locate(path)).st_ino  # noqa: PTH116 - its number alone
        for path in (commit_path(version), LOG_DIRECTORY, "")
    )
    files = {os.stat(table.store.locate(path)).st_ino for path in added}  # noqa: PTH116
    assert len(files) == new_files
    staged, after = synced[: synced.index(commit)], synced[synced.index(commit) :]
    assert sorted(staged) == sorted([*files, root] if files else [])
    assert after == [commit, log]
