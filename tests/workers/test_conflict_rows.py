"""The rows at which two writes conflicted: a worker's report, and its messages if they are unreadable."""

from datetime import timedelta

import pyarrow as pa
import pytest
from django.utils import timezone

from engine.schema.types import LONG, StructField, StructType
from engine.snapshot.row_lookup import read_rows_at
from engine.storage.uri import open_store
from lakeui.catalog.models import Table
from lakeui.catalog.previews import PATIENCE
from lakeui.conflicts.conflict_detail.sides import (
    MAX_ROWS,
    ask_for_rows,
    find_shared_rows,
    is_waiting,
)
from lakeui.conflicts.costs import keep
from lakeui.conflicts.models import Conflict, ConflictRows
from tests.engine.made_tables import remove, write_commit, write_first, write_rows
from workers import conflicts
from workers.conflicts import read_conflict_rows

pytestmark = pytest.mark.django_db

SCHEMA = StructType((StructField("n", LONG), StructField("twice", LONG)))


@pytest.fixture
def conflict(lake) -> Conflict:
    """Return the conflict of a write that read version 1 with a DELETE, version 2, about two rows of a file."""
    uri = str(lake / "lake/orders")
    store = open_store(uri)
    write_first(store, SCHEMA)
    write_commit(
        store, 1, write_rows(store, "a.parquet", {"n": range(9), "twice": range(0, 18, 2)})
    )
    added = write_rows(store, "b.parquet", {"n": [70], "twice": pa.array([None], pa.int64())})
    write_commit(store, 2, remove("a.parquet"), added)
    table = Table.objects.create(name="sales.orders", uri=uri, version=2)
    return _conflict(
        table, [{"path": "x.parquet"}, {"path": "a.parquet", "common_rows": [2, 7], "version": 1}]
    )


def _conflict(table: Table, compared: list[dict[str, object]], **fields) -> Conflict:
    values = {
        "kind": Conflict.Kind.ABORTED,
        "occurred_at": timezone.now(),
        "rule": "read_file_removed",
        "read_version": 1,
        "winning_version": 2,
        "facts": {"decision": {"shared_files": compared}},
    }
    return keep(table=table, **(values | fields))


def _read(conflict: Conflict) -> ConflictRows:
    asked = ask_for_rows(conflict)
    assert asked is not None
    read_conflict_rows(asked.pk)
    asked.refresh_from_db()
    return asked


def test_rows_are_those_that_the_loser_read(conflict, broker):
    rows = _read(conflict)
    assert (rows.error_code, rows.path, rows.version) == ("", "a.parquet", 1)
    assert [column["name"] for column in rows.columns] == ["n", "twice"]
    assert (rows.positions, rows.rows) == ([2, 7], [["2", "4"], ["7", "14"]])


def test_rows_that_the_winner_added_are_read_from_its_version(conflict, broker):
    added = [{"path": "b.parquet", "common_rows": [0], "version": 2}]
    rows = _read(_conflict(conflict.table, added, rule="data_added"))
    assert (rows.version, rows.rows) == (2, [["70", None]])


def test_rows_of_a_deleted_file_are_reported_as_unreadable(conflict, broker):
    rows = _read(
        _conflict(conflict.table, [{"path": "gone.parquet", "common_rows": [0], "version": 1}])
    )
    assert rows.error_code == "DELTA_DATA_FILE_UNREADABLE"
    assert rows.read_at
    assert rows.rows == []


def test_only_some_rows_are_read_and_none_where_no_position_is_known(conflict):
    many = _conflict(
        conflict.table, [{"path": "a.parquet", "common_rows": list(range(200)), "version": 1}]
    )
    met = find_shared_rows(many)
    assert met is not None
    assert len(met.positions) == MAX_ROWS
    assert (
        find_shared_rows(
            _conflict(conflict.table, [{"path": "a.parquet", "common_rows": [], "version": 1}])
        )
        is None
    )
    assert ask_for_rows(_conflict(conflict.table, [])) is None


def test_a_worker_gets_no_second_request_while_it_may_still_answer(conflict, broker):
    first = ask_for_rows(conflict)
    assert first is not None
    assert is_waiting(first)
    again = ask_for_rows(conflict)
    assert again is not None
    assert again.asked_at == first.asked_at
    ConflictRows.objects.update(asked_at=timezone.now() - PATIENCE)
    later = ask_for_rows(conflict)
    assert later is not None
    assert is_waiting(later)


def test_rows_are_forgotten_after_an_hour(conflict, broker):
    asked = ask_for_rows(conflict)
    assert asked is not None
    ConflictRows.objects.update(asked_at=timezone.now() - timedelta(minutes=61))
    _read(_conflict(conflict.table, [{"path": "b.parquet", "common_rows": [0], "version": 2}]))
    assert not ConflictRows.objects.filter(pk=asked.pk).exists()


def test_rows_that_are_forgotten_while_they_are_read_stay_forgotten(conflict, broker, monkeypatch):
    asked = ask_for_rows(conflict)
    assert asked is not None

    def forget_and_read(*args):
        ConflictRows.objects.all().delete()
        return read_rows_at(*args)

    monkeypatch.setattr(conflicts, "read_rows_at", forget_and_read)
    read_conflict_rows(asked.pk)
    assert not ConflictRows.objects.exists()
