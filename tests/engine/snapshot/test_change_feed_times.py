"""The change feed has the times of the history; a start before the first version means the first."""

import os
from pathlib import Path

import pytest

from engine.errors import TimestampOutOfRangeError
from engine.log.history import version_at, version_from
from engine.operations.run import run
from engine.snapshot.change_feed import COMMIT_TIMESTAMP, COMMIT_VERSION, read_changes
from engine.storage.uri import open_store
from engine.table import DeltaTable

_FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'{})"


def _table(place: Path, more: str = "") -> DeltaTable:
    table = DeltaTable(open_store(str(place)))
    run(f"CREATE TABLE t (id INT) {_FEED.format(more)}", table)
    for number in range(4):
        run(f"INSERT INTO t VALUES ({number})", table)  # noqa: S608
    for version, time_s in enumerate((1_700_000_000, 1_600_000_000, 1_600_000_000, 1_700_000_001)):
        os.utime(place / f"_delta_log/{version:020}.json", (time_s, time_s))
    return DeltaTable.open(str(place))


def test_a_change_has_the_time_that_history_gives_its_version(tmp_path):
    for name, more in (("files", ""), ("own", ", 'delta.enableInCommitTimestamps' = 'true'")):
        table = _table(tmp_path / name, more)
        history = {info.version: info.timestamp for info in table.history()}
        for start in (0, 2):
            changes = read_changes(table, start).to_pylist()
            times = {
                row[COMMIT_VERSION]: round(row[COMMIT_TIMESTAMP].timestamp() * 1000)
                for row in changes
            }
            assert times == {v: history[v] for v in range(max(start, 1), 5)}, name


def test_a_start_before_the_first_version_is_the_first(tmp_path):
    table = _table(tmp_path / "t")
    store, metadata = table.store, table.snapshot().metadata
    times = {info.version: info.timestamp for info in table.history()}
    assert version_from(store, metadata, 0) == 0
    for version, time_ms in times.items():
        assert version_from(store, metadata, time_ms) == version
        if version < 4:
            assert version_from(store, metadata, time_ms + 1) == version + 1
    with pytest.raises(TimestampOutOfRangeError):
        version_from(store, metadata, times[4] + 1)
    with pytest.raises(TimestampOutOfRangeError):
        version_at(store, metadata, 0)
