"""Tables that other engines wrote, read exactly: versions, files, rows, and refusals that say why."""

import importlib.util
import shutil
from types import ModuleType
from typing import Any

import pytest

from engine.actions.files import AddFile
from engine.errors import (
    EngineError,
    PathOutsideRootError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from engine.snapshot.change_feed import read_changes
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from tests.engine.made_tables import stage
from tests.shared import SHARED, shared_lines

if SHARED is None:
    pytest.skip("the tables of other engines are not beside this checkout", allow_module_level=True)

TABLES = SHARED / "tables"
EXPECTED = shared_lines("tables/expected.jsonl")
VERSIONS = shared_lines("tables/expected_versions.jsonl")
REFUSED = {"delta-spark/variant-stats-no-checkpoint": "variantShredding-preview"}


def _load_canon() -> ModuleType:
    spec = importlib.util.spec_from_file_location("canon", TABLES / "canon.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


canon = _load_canon()


def of_tier(*tiers: str) -> list[dict[str, Any]]:
    return [table for table in EXPECTED if table["tier"] in tiers]


def name_of(expected: dict[str, Any]) -> str:
    version = expected.get("version")
    return expected["table"] if version is None else f"{expected['table']}@{version}"


def open_table(expected: dict[str, Any]) -> DeltaTable:
    return DeltaTable.open(str(TABLES / expected["table"]))


def assert_log_matches(snapshot: Snapshot, expected: dict[str, Any]) -> None:
    assert snapshot.version == expected["version"]
    assert snapshot.protocol.min_reader_version == expected["min_reader"]
    assert snapshot.protocol.min_writer_version == expected["min_writer"]
    assert snapshot.schema.names == expected["columns"]
    assert snapshot.file_count == expected["num_live_files"]
    assert snapshot.files().num_rows == expected["num_live_files"]


def assert_rows_match(snapshot: Snapshot, expected: dict[str, Any]) -> None:
    rows = snapshot.to_arrow()
    rows.validate(full=True)
    assert rows.column_names == expected["columns"]
    assert rows.num_rows == expected["num_live_rows"]
    assert snapshot.row_count == expected["num_live_rows"]
    if expected["content_sha"] is not None:
        assert canon.content_hash(rows) == expected["content_sha"]


@pytest.mark.parametrize("expected", of_tier("read"), ids=name_of)
def test_a_table_of_another_engine_reads_right(expected):
    snapshot = open_table(expected).snapshot()
    assert_log_matches(snapshot, expected)
    assert sorted(snapshot.protocol.reader_features or []) == sorted(expected["reader_features"])
    assert sorted(snapshot.protocol.writer_features or []) == sorted(expected["writer_features"])
    assert list(snapshot.partition_columns) == expected["partition_columns"]
    assert_rows_match(snapshot, expected)


@pytest.mark.parametrize(
    "expected", [version for version in VERSIONS if version["table"] not in REFUSED], ids=name_of
)
def test_an_earlier_version_reads_right(expected):
    snapshot = open_table(expected).snapshot(version=expected["version"])
    assert_log_matches(snapshot, expected)
    if expected["expect_error"] is None:
        assert_rows_match(snapshot, expected)
    else:
        with pytest.raises(EngineError):
            snapshot.to_arrow()


@pytest.mark.parametrize("expected", of_tier("error"), ids=name_of)
def test_a_table_that_is_none_is_refused_with_its_reason(expected):
    with pytest.raises(EngineError) as caught:
        open_table(expected)
    kind, _, what = expected["expect_error"].partition(":")
    if kind == "unsupported_reader_feature":
        assert isinstance(caught.value, UnsupportedFeatureError)
        assert what in caught.value.features
    if kind == "table_not_found":
        assert isinstance(caught.value, TableNotFoundError)


@pytest.mark.parametrize("expected", of_tier("log_only"), ids=name_of)
def test_a_log_without_its_data_is_readable_and_its_rows_are_refused(expected):
    snapshot = open_table(expected).snapshot()
    assert_log_matches(snapshot, expected)
    with pytest.raises(EngineError):
        snapshot.to_arrow()


@pytest.mark.parametrize("expected", of_tier("type_widening", "variant"), ids=name_of)
def test_rows_of_a_young_feature_are_right_or_refused_by_its_name(expected):
    if expected["table"] in REFUSED:
        with pytest.raises(UnsupportedFeatureError) as caught:
            open_table(expected)
        assert caught.value.features == [REFUSED[expected["table"]]]
        return
    snapshot = open_table(expected).snapshot()
    rows = snapshot.to_arrow()
    assert rows.num_rows == expected["num_live_rows"]
    assert_log_matches(snapshot, expected)
    if expected["content_sha"] is not None:
        assert canon.content_hash(rows) == expected["content_sha"]


@pytest.mark.parametrize("expected", of_tier("read", "log_only"), ids=name_of)
def test_the_history_of_a_table_ends_with_its_newest_commit(expected):
    history = open_table(expected).history()
    versions = [info.version for info in history]
    assert versions == sorted(versions, reverse=True)
    assert all(info.timestamp is not None for info in history)


@pytest.mark.parametrize("expected", of_tier("read"), ids=name_of)
def test_a_version_beyond_the_latest_is_refused_with_the_range(expected):
    with pytest.raises(VersionNotFoundError) as caught:
        open_table(expected).snapshot(version=expected["version"] + 1)
    assert caught.value.latest == expected["version"]


@pytest.mark.parametrize(
    "expected",
    [table for table in EXPECTED if table["expect_write_error"] and table["tier"] == "read"],
    ids=name_of,
)
def test_a_table_that_may_only_be_read_refuses_every_write(expected, tmp_path):
    shutil.copytree(TABLES / expected["table"], tmp_path / "t", copy_function=shutil.copyfile)
    txn = DeltaTable.open(str(tmp_path / "t")).start_transaction()
    stage(
        txn, AddFile(path="x", partition_values={}, size=1, modification_time=1, data_change=True)
    )
    with pytest.raises(UnsupportedFeatureError) as caught:
        txn.commit("WRITE")
    assert caught.value.features == [expected["expect_write_error"].partition(":")[2]]
    assert DeltaTable.open(str(tmp_path / "t")).version() == expected["version"]


def test_a_shallow_clone_is_read_from_an_allowed_root(tmp_path):
    clone = next(table for table in EXPECTED if table.get("template"))
    shutil.copytree(TABLES / clone["table"], tmp_path / "t", copy_function=shutil.copyfile)
    (original,) = clone["template"]["replace_in_log"]
    source = TABLES / "trino" / f"deltalake__clone_merge__{original.rpartition('/')[2]}"
    for path in (tmp_path / "t" / "_delta_log").iterdir():
        if path.suffix == ".json":
            path.write_text(path.read_text("utf-8").replace(original, source.as_uri()), "utf-8")
        else:
            path.unlink()
    with pytest.raises(PathOutsideRootError):
        DeltaTable.open(str(tmp_path / "t")).snapshot().to_arrow()
    rows = DeltaTable.open(str(tmp_path / "t"), allowed_roots=[str(source)]).snapshot().to_arrow()
    assert rows.num_rows == clone["template"]["num_live_rows"]
    assert canon.content_hash(rows) == clone["template"]["content_sha"]


def changes_of(expected: dict[str, Any]) -> Any:
    changes = read_changes(open_table(expected), expected["start"], expected["end"])
    changes.validate(full=True)
    return changes.drop_columns(["_commit_timestamp"])


def name_of_range(expected: dict[str, Any]) -> str:
    return f"{expected['table']}@{expected['start']}-{expected['end']}"


@pytest.mark.parametrize("expected", shared_lines("tables/expected_cdf.jsonl"), ids=name_of_range)
def test_the_change_feed_of_a_range_reads_right(expected):
    changes = changes_of(expected)
    assert changes.num_rows == expected["num_rows"]
    assert canon.content_hash(changes) == expected["content_sha"]


@pytest.mark.parametrize(
    "expected", shared_lines("tables/expected_cdf_printed.jsonl"), ids=name_of_range
)
def test_the_change_feed_reads_as_another_engine_prints_it(expected):
    rows = changes_of(expected).select(expected["columns"]).to_pylist()
    printed = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
    assert sorted(printed) == sorted(expected["rows"])
