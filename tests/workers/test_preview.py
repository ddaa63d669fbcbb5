"""Previews of rows: a worker's reading of a table, and its messages if the table is unreadable."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from engine.actions.table import Protocol
from engine.schema.types import parse_schema
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog import previews
from lakeui.catalog.models import Preview, Table
from lakeui.catalog.previews import (
    PREVIEW_COLUMNS,
    PREVIEW_ROWS,
    PREVIEW_TEXT,
    ask_for_preview,
    is_waiting,
)
from tests.engine.made_tables import add, remove, write_commit, write_first, write_rows
from tests.services import wait_until
from workers import preview
from workers.preview import preview_table, row_texts

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(180)]

KINDS = {
    "n": ("long", [1, None], pa.int64()),
    "name": ("string", ["Å" * 600, "b"], pa.string()),
    "day": ("date", [date(2026, 1, 2), None], pa.date32()),
    "at": ("timestamp", [datetime(2026, 1, 2, 3, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "price": ("decimal(6,2)", [Decimal("1.50"), None], pa.decimal128(6, 2)),
    "raw": ("binary", [b"\x00\xff", None], pa.binary()),
}
NTZ = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["timestampNtz"],
    writer_features=["timestampNtz"],
)
SCHEMA = parse_schema(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, (kind, _, _) in KINDS.items()
        ]
        + [
            {
                "name": "tags",
                "type": {"type": "array", "elementType": "string", "containsNull": True},
                "nullable": True,
                "metadata": {},
            }
        ],
    }
)


@pytest.fixture
def table_of_rows(lake):
    """Return a registered table: version 0 is empty, version 1 holds two rows, version 2 many."""
    uri = str(lake / "lake/orders")
    store = open_store(uri)
    write_first(store, SCHEMA)
    columns = {name: pa.array(values, kind) for name, (_, values, kind) in KINDS.items()}
    tags = pa.array([["x", None], None], pa.list_(pa.string()))
    write_commit(store, 1, write_rows(store, "a.parquet", pa.table(columns | {"tags": tags})))
    many = pa.table({"n": pa.array(range(PREVIEW_ROWS * 3), pa.int64())})
    write_commit(store, 2, write_rows(store, "b.parquet", many))
    return Table.objects.create(name="sales.orders", uri=uri, version=2)


def _read(table, version, where=""):
    asked = Preview.objects.create(
        table=table, version=version, where=where, asked_at=timezone.now()
    )
    preview_table(asked.pk)
    asked.refresh_from_db()
    return asked


def test_every_kind_of_value_is_read_as_text_and_null_stays_null(table_of_rows):
    preview = _read(table_of_rows, 1)
    assert preview.error_code == ""
    assert [column["name"] for column in preview.columns] == [*KINDS, "tags"]
    assert preview.columns[-1]["type"] == "array"
    first, second = preview.rows
    assert first[0] == "1"
    assert len(first[1]) == PREVIEW_TEXT
    assert first[2] == "2026-01-02"
    assert first[3].startswith("2026-01-02 03:00:00")
    assert first[4:] == ["1.50", "00ff", '["x", null]']
    assert second == [None, "b", None, None, None, None, None]


@pytest.mark.parametrize("year", ["+10000-01-01", "-0044-03-15"])
def test_years_beyond_pythons_calendar_are_shown(lake, year):
    uri = str(lake / "lake/eras")
    store, days = open_store(uri), pa.array([4_000_000, -4_000_000], pa.int32()).view(pa.date32())
    fields = [
        {"name": "day", "type": "date"},
        {"name": "days", "type": {"type": "array", "elementType": "date", "containsNull": True}},
        {"name": "part", "type": "timestamp_ntz"},
    ]
    fields = [{**field, "nullable": True, "metadata": {}} for field in fields]
    schema = parse_schema({"type": "struct", "fields": fields})
    write_first(store, schema, NTZ, partition_columns=["part"])
    days_of_each = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), days)
    rows = pa.table({"day": days, "days": days_of_each})
    values = {"part": f"{year} 00:00:00"}
    write_commit(store, 1, write_rows(store, "a.parquet", rows, partition_values=values))
    preview = _read(Table.objects.create(name="sales.eras", uri=uri, version=1), 1)
    assert preview.error_code == ""
    (_, _, part), (_, _, same) = preview.rows
    assert part == same
    assert year.strip("+-0")[:4].lstrip("0") in part
    assert [row[1] for row in preview.rows] == [f'["{row[0]}"]' for row in preview.rows]


def test_a_version_is_read_as_it_was_and_only_the_requested_rows(table_of_rows):
    assert _read(table_of_rows, 0).rows == []
    assert len(_read(table_of_rows, 2).rows) == PREVIEW_ROWS


def test_rows_of_a_condition_are_read_or_the_reason_is_given(table_of_rows):
    some = _read(table_of_rows, 2, "n BETWEEN 290 AND 295 AND n % 2 = 0")
    at = [column["name"] for column in some.columns].index("n")
    assert sorted(row[at] for row in some.rows) == ["290", "292", "294"]
    assert _read(table_of_rows, 2, "nowhere = 1").error_code == "UNRESOLVED_COLUMN"
    assert (
        _read(table_of_rows, 2, "reflect('a', 'b') = ''").error_code
        == "LAKE_EXPRESSION_NOT_ALLOWED"
    )


def test_a_table_that_cannot_be_read_says_why(table_of_rows, settings):
    assert _read(table_of_rows, 99).error_code == "DELTA_VERSION_NOT_FOUND"
    settings.TABLE_ROOTS = []
    refused = _read(table_of_rows, 1)
    assert refused.error_code == "LAKE_PATH_OUTSIDE_ROOT"
    assert refused.rows == []
    assert refused.read_at


def test_rows_are_forgotten_after_an_hour(table_of_rows):
    old = Preview.objects.create(
        table=table_of_rows, version=0, asked_at=timezone.now() - timedelta(minutes=61)
    )
    _read(table_of_rows, 1)
    assert not Preview.objects.filter(pk=old.pk).exists()


def test_a_worker_gets_no_second_request_while_it_may_still_answer(table_of_rows):
    first = ask_for_preview(table_of_rows, 1)
    assert is_waiting(first)
    assert ask_for_preview(table_of_rows, 1).asked_at == first.asked_at
    Preview.objects.update(asked_at=timezone.now() - previews.PATIENCE)
    again = ask_for_preview(table_of_rows, 1)
    assert again.pk == first.pk
    assert is_waiting(again)
    Preview.objects.update(asked_at=timezone.now() + 2 * previews.PATIENCE)  # a clock was ahead
    assert not is_waiting(Preview.objects.get())


def test_an_answer_to_an_earlier_request_is_dropped(table_of_rows, monkeypatch):
    first = ask_for_preview(table_of_rows, 1)
    later = first.asked_at + timedelta(seconds=90)

    def request_again_and_read(rows):
        Preview.objects.update(asked_at=later)
        return row_texts(rows)

    monkeypatch.setattr(preview, "row_texts", request_again_and_read)
    preview_table(first.pk)
    first.refresh_from_db()
    assert (first.asked_at, first.read_at, first.rows) == (later, None, [])


@pytest.mark.django_db(transaction=True)
def test_a_worker_answers_the_page_that_requested_rows(start_worker, table_of_rows):
    start_worker("reads")
    asked = ask_for_preview(table_of_rows, 1)
    wait_until(lambda: Preview.objects.get(pk=asked.pk).read_at is not None, "the rows")
    assert len(Preview.objects.get(pk=asked.pk).rows) == 2


def test_the_size_of_the_version_is_shown_beside_the_rows(table_of_rows):
    preview = _read(table_of_rows, 2)
    assert (preview.row_count, preview.file_count, preview.marked_rows) == (
        PREVIEW_ROWS * 3 + 2,
        2,
        0,
    )


def _request_preview(table, **request):
    asked = Preview.objects.create(table=table, asked_at=timezone.now(), **request)
    preview_table(asked.pk)
    asked.refresh_from_db()
    return asked


def test_columns_that_were_chosen_are_read_alone_and_in_their_order(table_of_rows):
    some = _request_preview(table_of_rows, version=1, wanted=["name", "N"])
    assert [column["name"] for column in some.columns] == ["name", "n"]
    assert some.rows[1] == ["b", None]
    assert some.omitted_columns == 0
    assert (
        _request_preview(table_of_rows, version=1, wanted=["nowhere"]).error_code
        == "UNRESOLVED_COLUMN"
    )


def test_the_profile_of_a_column_is_read_for_a_page(table_of_rows):
    profile = _request_preview(table_of_rows, version=2, profiled="n")
    assert profile.answer == {
        "rows": 302, "nulls": 1, "distinct": 300, "least": "0", "greatest": "299", "is_whole": True,
    }  # fmt: skip
    assert _request_preview(table_of_rows, version=1, profiled="raw").answer["least"] is None
    assert _request_preview(table_of_rows, version=1, profiled="tags").answer["distinct"] is None


def test_rows_that_differ_are_stored_with_their_changes_in_the_order_of_their_keys(table_of_rows):
    store = open_store(table_of_rows.uri)
    new = pa.table({"n": pa.array([299, 5, 1000], pa.int64()), "name": ["x", None, None]})
    table = DeltaTable(store).snapshot(2)
    removed = [remove(file.path) for file in table.add_files() if file.path == "b.parquet"]
    write_commit(store, 3, *removed, write_rows(store, "c.parquet", new))
    different = _request_preview(
        table_of_rows, older_version=2, version=3, keys=["n"], where="n IN (299, 5, 4, 1000)"
    )
    assert different.error_code == ""
    at = [column["name"] for column in different.columns].index("n")
    shown = [(row["change"], (row["after"] or row["before"])[at], row["changed"]) for row in different.rows]  # fmt: skip
    assert shown == [("removed", "4", []), ("changed", "299", ["name"]), ("added", "1000", [])]
    counts = {name: different.answer[name] for name in ("removed", "added", "changed", "is_whole")}
    assert counts == {"removed": 1, "added": 1, "changed": 1, "is_whole": True}
    everything = _request_preview(table_of_rows, older_version=2, version=3)
    assert everything.answer["removed"] == 299
    assert len(everything.rows) == 301


def test_a_difference_of_values_that_are_cut_is_marked_and_binary_and_nested_ones_are_shown(
    table_of_rows,
):
    store = open_store(table_of_rows.uri)
    snapshot = DeltaTable(store).snapshot(1)
    rows = snapshot.to_arrow()
    long = pa.array(["Å" * 600 + "!", "b"])
    raw = pa.array([b"\x00\xfe", None], pa.binary())
    tags = pa.array([["x", "y"], None], pa.list_(pa.string()))
    for name, values in (("name", long), ("raw", raw), ("tags", tags)):
        rows = rows.set_column(rows.column_names.index(name), name, values)
    removed = [remove(file.path) for file in snapshot.add_files()]
    write_commit(store, 3, *removed, write_rows(store, "c.parquet", rows))
    (row,) = _request_preview(table_of_rows, older_version=2, version=3, keys=["n"]).rows
    assert row["changed"] == ["name", "raw", "tags"]
    assert row["before"][1] == row["after"][1]
    assert (row["before"][5], row["after"][5]) == ("00ff", "00fe")
    assert row["after"][6] == '["x", "y"]'


def test_of_ten_thousand_columns_the_keys_and_those_that_changed_are_shown(lake):
    uri = str(lake / "lake/wide")
    store = open_store(uri)
    fields = [{"name": f"c{n}", "type": "long", "nullable": True, "metadata": {}} for n in range(10_000)]  # fmt: skip
    write_first(store, parse_schema({"type": "struct", "fields": fields}))
    values = {f"c{n}": pa.array([n], pa.int64()) for n in range(10_000)}
    write_commit(store, 1, write_rows(store, "a.parquet", pa.table(values)))
    values["c9000"] = pa.array([-1], pa.int64())
    write_commit(store, 2, remove("a.parquet"), write_rows(store, "b.parquet", pa.table(values)))
    table = Table.objects.create(name="sales.wide", uri=uri, version=2)
    wide = _request_preview(table, older_version=1, version=2, keys=["c9999"])
    (row,) = wide.rows
    assert row["changed"] == ["c9000"]
    assert [column["name"] for column in wide.columns][-2:] == ["c9000", "c9999"]
    assert wide.omitted_columns == 10_000 - PREVIEW_COLUMNS


def test_cleaned_versions_and_deleted_files_are_reported(table_of_rows):
    assert (
        _request_preview(table_of_rows, older_version=-1, version=9).error_code
        == "DELTA_VERSION_NOT_FOUND"
    )
    open_store(table_of_rows.uri).delete("b.parquet")
    assert (
        _request_preview(table_of_rows, older_version=1, version=2).error_code
        == "DELTA_FILE_NOT_FOUND_DETAILED"
    )


def test_binary_inside_of_a_value_is_shown_as_a_column_of_it_is():
    raw = pa.array([{"raw": b"\x00\xff", "list": [b"a"]}])
    assert row_texts(pa.table({"s": raw})) == [['{"raw": "00ff", "list": ["61"]}']]


def test_long_values_that_unfold_from_a_small_file_are_read_a_few_at_a_time(table_of_rows):
    long = pa.array(["Å" * 10 * 2**20])
    references = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), long)
    store = open_store(table_of_rows.uri)
    sink = pa.BufferOutputStream()
    options = {"dictionary_pagesize_limit": 1 << 30, "write_statistics": False}
    pq.write_table(pa.table({"name": references}), sink, compression="zstd", **options)
    data = sink.getvalue().to_pybytes()
    store.put("c.parquet", data)
    write_commit(store, 3, add("c.parquet", size=len(data)))
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    read = _read(table_of_rows, 3, "n IS NULL AND name >= 'Å'")
    assert (read.error_code, len(read.rows)) == ("", 40)
    assert {len(row[1]) for row in read.rows if row[1] != "b"} == {PREVIEW_TEXT}
    assert pool.max_memory() - before < 400 * 2**20
