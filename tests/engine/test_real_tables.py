"""Tables of other engines, read exactly: versions, files, rows, and refusals with a reason."""

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
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
from tests.reference import reference_cases

EXPECTED = "tables/expected.jsonl"
REFUSED = {"delta-spark/variant-stats-no-checkpoint": "variantShredding-preview"}


@pytest.fixture(scope="module")
def content_hash(reference: Path) -> Callable[[pa.Table], str]:
    """The hash of a table's rows by which the reference material names them."""
    spec = importlib.util.spec_from_file_location("canon", reference / "tables" / "canon.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.content_hash


@pytest.fixture
def place(expected: dict[str, Any], reference: Path) -> str:
    """Return the location of the expected table."""
    return str(reference / "tables" / expected["table"])


def tables_of(*tiers: str) -> list[Any]:
    return reference_cases(EXPECTED, where=lambda line: line["tier"] in tiers, label=label_of)


def label_of(expected: dict[str, Any]) -> str:
    version = expected.get("version")
    return expected["table"] if version is None else f"{expected['table']}@{version}"


def assert_log_matches(snapshot: Snapshot, expected: dict[str, Any]) -> None:
    assert snapshot.version == expected["version"]
    assert snapshot.protocol.min_reader_version == expected["min_reader"]
    assert snapshot.protocol.min_writer_version == expected["min_writer"]
    assert snapshot.schema.names == expected["columns"]
    assert snapshot.file_count == expected["num_live_files"]
    assert snapshot.files().num_rows == expected["num_live_files"]


def assert_rows_match(
    snapshot: Snapshot, expected: dict[str, Any], content_hash: Callable[[pa.Table], str]
) -> None:
    rows = snapshot.to_arrow()
    rows.validate(full=True)
    assert rows.column_names == expected["columns"]
    assert rows.num_rows == expected["num_live_rows"]
    assert snapshot.row_count == expected["num_live_rows"]
    if expected["content_sha"] is not None:
        assert content_hash(rows) == expected["content_sha"]


@pytest.mark.parametrize("expected", tables_of("read"))
def test_a_table_of_another_engine_reads_right(expected, place, content_hash):
    snapshot = DeltaTable.open(place).snapshot()
    assert_log_matches(snapshot, expected)
    assert sorted(snapshot.protocol.reader_features or []) == sorted(expected["reader_features"])
    assert sorted(snapshot.protocol.writer_features or []) == sorted(expected["writer_features"])
    assert list(snapshot.partition_columns) == expected["partition_columns"]
    assert_rows_match(snapshot, expected, content_hash)


@pytest.mark.parametrize(
    "expected",
    reference_cases(
        "tables/expected_versions.jsonl",
        where=lambda line: line["table"] not in REFUSED,
        label=label_of,
    ),
)
def test_an_earlier_version_reads_right(expected, place, content_hash):
    snapshot = DeltaTable.open(place).snapshot(version=expected["version"])
    assert_log_matches(snapshot, expected)
    if expected["expect_error"] is None:
        assert_rows_match(snapshot, expected, content_hash)
    else:
        with pytest.raises(EngineError):
            snapshot.to_arrow()


@pytest.mark.parametrize("expected", tables_of("error"))
def test_an_invalid_table_is_refused_with_its_reason(expected, place):
    with pytest.raises(EngineError) as caught:
        DeltaTable.open(place)
    kind, _, what = expected["expect_error"].partition(":")
    if kind == "unsupported_reader_feature":
        assert isinstance(caught.value, UnsupportedFeatureError)
        assert what in caught.value.features
    if kind == "table_not_found":
        assert isinstance(caught.value, TableNotFoundError)


@pytest.mark.parametrize("expected", tables_of("log_only"))
def test_a_log_without_its_data_is_readable_and_its_rows_are_refused(expected, place):
    snapshot = DeltaTable.open(place).snapshot()
    assert_log_matches(snapshot, expected)
    with pytest.raises(EngineError):
        snapshot.to_arrow()


@pytest.mark.parametrize("expected", tables_of("type_widening", "variant"))
def test_rows_of_a_young_feature_are_right_or_refused_by_its_name(expected, place, content_hash):
    if expected["table"] in REFUSED:
        with pytest.raises(UnsupportedFeatureError) as caught:
            DeltaTable.open(place)
        assert caught.value.features == [REFUSED[expected["table"]]]
        return
    snapshot = DeltaTable.open(place).snapshot()
    rows = snapshot.to_arrow()
    assert rows.num_rows == expected["num_live_rows"]
    assert_log_matches(snapshot, expected)
    if expected["content_sha"] is not None:
        assert content_hash(rows) == expected["content_sha"]


@pytest.mark.parametrize("expected", tables_of("read", "log_only"))
def test_the_history_of_a_table_ends_with_its_newest_commit(expected, place):
    history = DeltaTable.open(place).history()
    versions = [info.version for info in history]
    assert versions == sorted(versions, reverse=True)
    assert all(info.timestamp is not None for info in history)


@pytest.mark.parametrize("expected", tables_of("read"))
def test_a_version_beyond_the_latest_is_refused_with_the_range(expected, place):
    with pytest.raises(VersionNotFoundError) as caught:
        DeltaTable.open(place).snapshot(version=expected["version"] + 1)
    assert caught.value.latest == expected["version"]


@pytest.mark.parametrize(
    "expected",
    reference_cases(
        EXPECTED, where=lambda line: line["expect_write_error"] and line["tier"] == "read"
    ),
)
def test_a_table_that_may_only_be_read_refuses_every_write(expected, place, tmp_path):
    shutil.copytree(place, tmp_path / "t", copy_function=shutil.copyfile)
    txn = DeltaTable.open(str(tmp_path / "t")).start_transaction()
    stage(
        txn, AddFile(path="x", partition_values={}, size=1, modification_time=1, data_change=True)
    )
    with pytest.raises(UnsupportedFeatureError) as caught:
        txn.commit("WRITE")
    assert caught.value.features == [expected["expect_write_error"].partition(":")[2]]
    assert DeltaTable.open(str(tmp_path / "t")).version() == expected["version"]


@pytest.mark.parametrize(
    "expected", reference_cases(EXPECTED, where=lambda line: bool(line.get("template")))
)
def test_a_shallow_clone_is_read_from_an_allowed_root(
    expected, place, reference, content_hash, tmp_path
):
    shutil.copytree(place, tmp_path / "t", copy_function=shutil.copyfile)
    (original,) = expected["template"]["replace_in_log"]
    name = f"deltalake__clone_merge__{original.rpartition('/')[2]}"
    source = reference / "tables" / "trino" / name
    for path in (tmp_path / "t" / "_delta_log").iterdir():
        if path.suffix == ".json":
            path.write_text(path.read_text("utf-8").replace(original, source.as_uri()), "utf-8")
        else:
            path.unlink()
    with pytest.raises(PathOutsideRootError):
        DeltaTable.open(str(tmp_path / "t")).snapshot().to_arrow()
    rows = DeltaTable.open(str(tmp_path / "t"), allowed_roots=[str(source)]).snapshot().to_arrow()
    assert rows.num_rows == expected["template"]["num_live_rows"]
    assert content_hash(rows) == expected["template"]["content_sha"]


def changes_of(expected: dict[str, Any], place: str) -> pa.Table:
    changes = read_changes(DeltaTable.open(place), expected["start"], expected["end"])
    changes.validate(full=True)
    return changes.drop_columns(["_commit_timestamp"])


def label_of_range(expected: dict[str, Any]) -> str:
    return f"{expected['table']}@{expected['start']}-{expected['end']}"


@pytest.mark.parametrize(
    "expected", reference_cases("tables/expected_cdf.jsonl", label=label_of_range)
)
def test_the_change_feed_of_a_range_reads_right(expected, place, content_hash):
    changes = changes_of(expected, place)
    assert changes.num_rows == expected["num_rows"]
    assert content_hash(changes) == expected["content_sha"]


@pytest.mark.parametrize(
    "expected", reference_cases("tables/expected_cdf_printed.jsonl", label=label_of_range)
)
def test_the_change_feed_reads_as_another_engine_prints_it(expected, place):
    rows = changes_of(expected, place).select(expected["columns"]).to_pylist()
    printed = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
    assert sorted(printed) == sorted(expected["rows"])
