"""Row counts of versions that restore files, refer to them, copy rows, or only remove."""

import json

import pytest

from lakeui.catalog.registration import register_table
from lakeui.catalog.row_counts import RowCounts, rows_in, rows_of
from tests.lakeui.catalog.log_writer import add, append_commit, new_table, remove

pytestmark = pytest.mark.django_db

TEN = json.dumps({"numRecords": 10})


def _vector_fields(count: int) -> dict[str, object]:
    vector = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 34}
    return {"deletionVector": vector | {"cardinality": count}}


def _add(path: str, count: int) -> dict[str, object]:
    return {"add": add(path, rows=10)["add"] | _vector_fields(count)}


@pytest.fixture
def mirror(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    new_table(tmp_path / "t")

    def register(*commits):
        for version, (operation, actions) in enumerate(commits, start=1):
            info = {"operation": operation, "operationParameters": {}}
            append_commit(tmp_path / "t", version, actions, info=info)
        return register_table(str(tmp_path / "t"), "sales.t")

    return register


def test_files_added_with_a_vector_add_their_live_rows_and_lose_none(mirror):
    table = mirror(
        ("CLONE", [_add("a.parquet", 3), add("b.parquet", rows=5)]),
        ("RESTORE", [_add("c.parquet", 1), remove("b.parquet", stats=TEN)]),
        ("DELETE", [remove("c.parquet", stats=TEN, **_vector_fields(1)), _add("c.parquet", 4)]),
        ("COMPUTE STATS", [_add("a.parquet", 3)]),
    )
    told = list(
        table.commits.filter(version__gt=0)
        .order_by("version")
        .values_list("rows_added", "rows_removed", "rows_deleted_by_vectors")
    )
    assert told == [(12, 0, 0), (9, 10, 0), (0, 0, 3), (0, 0, 0)]
    cloned, restored = table.commits.filter(version__in=(1, 2)).order_by("version")
    assert rows_of(cloned) == RowCounts(12, None, None)
    assert rows_of(restored) == RowCounts(9, None, 10)


def test_a_replaced_table_and_files_deleted_whole_count_the_removed_rows(mirror):
    table = mirror(
        ("WRITE", [add("a.parquet", rows=10), add("b.parquet", rows=10)]),
        ("DELETE", [remove("a.parquet", stats=TEN)]),
        ("CREATE OR REPLACE TABLE", [remove("b.parquet", stats=TEN, **_vector_fields(2))]),
        ("DELETE", [remove("c.parquet")]),
    )
    counts = [rows_of(commit) for commit in table.commits.order_by("version")][2:]
    assert counts == [
        RowCounts(None, None, 10),
        RowCounts(0, None, 8, is_overwrite=True),
        RowCounts(None, None, None),
    ]


def test_rows_that_a_conditional_overwrite_copied_are_not_inserted():
    metrics = {"numOutputRows": "12", "numCopiedRows": "9", "numDeletedRows": "1"}
    assert rows_in("WRITE", metrics) == RowCounts(3, None, 1)
