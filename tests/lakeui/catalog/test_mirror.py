"""The mirror: rows that match the log, for tables of every engine."""

import json
import shutil
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from engine.errors import EngineError
from engine.table import DeltaTable
from lakeui.catalog.definitions import definition_at
from lakeui.catalog.mirror import rebuild_table, refresh_table
from lakeui.catalog.models import Commit, CommitFile, CommitHour, LiveFile, Table
from lakeui.catalog.registration import register_table
from lakeui.catalog.row_counts import RowCounts, rows_of
from lakeui.pages.operations import rows_text, short_rows
from tests.engine.foreign.every_table import READABLE, REFUSED, UNREADABLE
from tests.lakeui.catalog.log_writer import SCHEMA, add, append_commit, new_table, remove
from tests.reference import reference_cases

pytestmark = pytest.mark.django_db

OVERWRITE = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}
EXPECTED = "tables/expected.jsonl"


@pytest.fixture
def lake(tmp_path, settings) -> Path:
    settings.TABLE_ROOTS = [str(tmp_path)]
    return tmp_path


def test_registering_mirrors_every_version_with_its_writers_words(lake):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("a.parquet", rows=10), add("b.parquet", rows=5)])
    table = register_table(str(lake / "orders"), "sales.orders")
    assert (table.version, table.file_count, table.row_count) == (1, 2, 15)
    commit = Commit.objects.get(table=table, version=1)
    assert (commit.operation, commit.files_added, commit.rows_added) == ("WRITE", 2, 15)
    assert commit.predicate == "id = 1"
    assert [file.path for file in commit.files.all()] == ["a.parquet", "b.parquet"]


def test_a_table_whose_first_version_says_no_schema_is_mirrored(lake):
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    append_commit(lake / "orders", 0, [protocol, {"metaData": {"id": "by-hand"}}])
    said = {"id": "by-hand", "schemaString": SCHEMA}
    append_commit(lake / "orders", 1, [{"metaData": said}, add("a.parquet", rows=10)])
    table = register_table(str(lake / "orders"), "sales.orders")
    assert (table.version, table.row_count) == (1, 10)
    assert [commit.changes_metadata for commit in table.commits.order_by("version")] == [True] * 2
    before = definition_at(table, 0)
    assert before is not None
    assert before.schema == ()
    assert rebuild_table(table) == 2


def test_a_table_with_a_column_of_another_engines_type_is_mirrored(lake):
    new_table(lake / "orders")
    user_type = {"type": "udt", "class": "org.example.PointUDT", "sqlType": "string"}
    columns = {"id": "long", "at": "time(6)", "place": user_type}
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns.items()]
    said = {"id": "by-hand", "schemaString": json.dumps({"type": "struct", "fields": fields})}
    append_commit(lake / "orders", 1, [{"metaData": said}, add("a.parquet", rows=10)])
    table = register_table(str(lake / "orders"), "sales.orders")
    assert (table.version, table.row_count, table.mirror_error_code) == (1, 10, "")
    definition = definition_at(table, 1)
    assert definition is not None
    assert definition.schema == ("id long", "at time(6)", "place PointUDT (string)")


def test_an_overwrite_counts_the_rows_that_it_replaced(lake):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("a.parquet", rows=10), add("b.parquet", rows=990)])
    stats, vector = (
        json.dumps({"numRecords": 990}),
        {"storageType": "u", "pathOrInlineDv": "x" * 20},
    )
    marked = vector | {"offset": 1, "sizeInBytes": 34, "cardinality": 90}
    gone = remove("b.parquet", stats=stats, deletionVector=marked)
    append_commit(lake / "orders", 2, [gone, add("c.parquet", rows=20)], info=OVERWRITE)
    append_commit(
        lake / "orders", 3, [remove("a.parquet"), add("d.parquet", rows=4)], info=OVERWRITE
    )
    metrics = {"numOutputRows": "7", "numDeletedRows": "3"}
    where = OVERWRITE | {
        "operationParameters": {"predicate": '["id = 1"]'},
        "operationMetrics": metrics,
    }
    append_commit(
        lake / "orders", 4, [remove("c.parquet", stats=stats), add("e.parquet")], info=where
    )
    blind = where | {"operationMetrics": {}}
    append_commit(
        lake / "orders", 5, [remove("e.parquet", stats=stats), add("f.parquet")], info=blind
    )
    table = register_table(str(lake / "orders"), "sales.orders")
    counts = [rows_of(commit) for commit in table.commits.order_by("version")][2:]
    assert counts == [
        RowCounts(20, None, 900, is_overwrite=True),
        RowCounts(4, None, None, is_overwrite=True),  # its file's rows are not in the log
        RowCounts(7, None, 3, is_overwrite=True),
        RowCounts(None, None, None, is_overwrite=True),  # files may have been copied in part
    ]
    assert [rows_text(count) for count in counts[:2]] == [
        "20 rows in, 900 rows replaced",
        "4 rows in, rows replaced not recorded",
    ]
    assert [short_rows(count) for count in counts] == [
        "+20 \u2212900",
        "+4 \u2212?",
        "+7 \u22123",
        "",
    ]


def test_values_that_another_engine_did_not_record_stay_null(lake):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("a.parquet", rows=None)], info={"operation": "WRITE"})
    table = register_table(str(lake / "orders"))
    commit = Commit.objects.get(table=table, version=1)
    assert commit.is_blind_append is None
    assert commit.read_version is None
    assert commit.isolation_level == ""
    assert commit.rows_added is None
    assert table.row_count is None


def test_refresh_reads_only_new_commits(lake):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("a.parquet")])
    table = register_table(str(lake / "orders"))
    before = Commit.objects.get(table=table, version=1).pk
    append_commit(lake / "orders", 2, [remove("a.parquet"), add("b.parquet")])
    assert refresh_table(table) == 1
    assert Commit.objects.get(table=table, version=1).pk == before
    assert list(LiveFile.objects.values_list("path", flat=True)) == ["b.parquet"]


def test_refresh_of_an_unchanged_table_writes_only_the_time(lake):
    new_table(lake / "orders")
    table = register_table(str(lake / "orders"))
    seen = table.mirrored_at
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert refresh_table(table) == 0
    assert table.mirrored_at > seen
    assert len(queries) == 2


def test_a_batch_takes_the_same_queries_for_any_number_of_versions(lake):
    new_table(lake / "orders")
    table = register_table(str(lake / "orders"))
    counts = []
    for versions in ([1], range(2, 32)):
        for version in versions:
            append_commit(lake / "orders", version, [add(f"{version}.parquet")])
        with CaptureQueriesContext(connection) as queries:
            assert refresh_table(table) == len(versions)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 20


def test_rebuilding_gives_the_same_rows(lake):
    new_table(lake / "orders")
    for version in range(1, 6):
        append_commit(lake / "orders", version, [add(f"{version}.parquet", rows=version)])
    table = register_table(str(lake / "orders"))
    before = _contents(table)
    Commit.objects.all().delete()
    LiveFile.objects.all().delete()
    assert rebuild_table(table) == 6
    assert _contents(table) == before


def test_a_commit_is_counted_once_however_often_it_is_read(lake):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("1.parquet")])
    table = register_table(str(lake / "orders"))
    refresh_table(table)
    rebuild_table(table)
    assert CommitHour.objects.aggregate(n=Sum("commits"))["n"] == 2


def test_a_table_that_disappeared_keeps_its_rows_and_shows_since_when(lake):
    new_table(lake / "orders")
    table = register_table(str(lake / "orders"))
    mirrored_at = table.mirrored_at
    shutil.rmtree(lake / "orders")
    assert refresh_table(table) == 0
    failed_at = table.mirror_failed_at
    refresh_table(table)
    table.refresh_from_db()
    assert table.mirror_error_code == "DELTA_TABLE_NOT_FOUND"
    assert (table.version, table.mirrored_at) == (0, mirrored_at)
    assert table.mirror_failed_at == failed_at
    assert table.mirror_tries == 2
    assert table.mirror_tried_at > failed_at


def test_the_mirror_records_the_last_writer_and_the_last_compaction(lake):
    new_table(lake / "orders")
    told = {"operation": "OPTIMIZE", "userName": "opt-scheduler", "timestamp": 1_790_000_000_000}
    append_commit(lake / "orders", 1, [add("a.parquet")], info=told)
    append_commit(
        lake / "orders",
        2,
        [add("b.parquet")],
        info={"operation": "WRITE", "engineInfo": "delta-rs:1.6"},
    )
    table = register_table(str(lake / "orders"))
    compacted = Commit.objects.get(table=table, version=1).committed_at
    assert (table.last_writer, table.last_vacuum_at) == ("delta-rs:1.6", None)
    assert table.last_optimize_at == compacted
    rebuild_table(table)
    assert table.last_optimize_at == compacted


def test_a_table_that_reappeared_has_no_error_any_more(lake):
    new_table(lake / "orders")
    table = register_table(str(lake / "orders"))
    (lake / "orders").rename(lake / "away")
    refresh_table(table)
    (lake / "away").rename(lake / "orders")
    refresh_table(table)
    table.refresh_from_db()
    assert (table.mirror_error_code, table.mirror_failed_at) == ("", None)


def test_a_malformed_commit_is_an_error_of_the_table_and_not_of_the_page(lake):
    new_table(lake / "orders")
    table = register_table(str(lake / "orders"))
    (lake / "orders/_delta_log/00000000000000000001.json").write_text('{"add": 3}\n')
    assert refresh_table(table) == 0
    assert table.mirror_error_code == "DELTA_LOG_MALFORMED"


def test_another_table_put_in_its_place_is_mirrored_from_its_beginning(lake):
    new_table(lake / "orders", table_id="first")
    append_commit(lake / "orders", 1, [add("a.parquet")])
    table = register_table(str(lake / "orders"))
    shutil.rmtree(lake / "orders")
    new_table(lake / "orders", table_id="second")
    refresh_table(table)
    assert table.table_uuid == "second"
    assert list(Commit.objects.values_list("version", flat=True)) == [0]


@pytest.mark.parametrize("later_versions", [0, 1])
def test_a_table_of_the_same_id_and_sizes_in_its_place_is_mirrored_from_its_beginning(
    lake, later_versions
):
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("a.parquet")])
    table = register_table(str(lake / "orders"))
    shutil.rmtree(lake / "orders")
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add("b.parquet")])
    for version in range(2, 2 + later_versions):
        append_commit(lake / "orders", version, [add(f"{version}.parquet")])
    assert refresh_table(table) == 2 + later_versions
    assert refresh_table(table) == 0
    mirrored = CommitFile.objects.filter(commit__version=1).values_list("path", flat=True)
    assert list(mirrored) == ["b.parquet"]
    assert LiveFile.objects.filter(path="b.parquet").exists()


def test_a_long_commit_beyond_ascii_is_known_again(lake):
    new_table(lake / "orders")
    append_commit(
        lake / "orders",
        1,
        [add(f"ähm-{n}-\N{GREEK CAPITAL LETTER DELTA}.parquet") for n in range(100)],
    )
    table = register_table(str(lake / "orders"))
    before = Commit.objects.get(table=table, version=1).pk
    assert refresh_table(table) == 0
    assert Commit.objects.get(table=table, version=1).pk == before


def test_files_over_the_caps_are_counted_but_not_mirrored(lake, settings):
    settings.MIRROR_MAX_LIVE_FILES, settings.MIRROR_MAX_FILES_A_COMMIT = 3, 2
    settings.MIRROR_MAX_RAW_BYTES = 40
    new_table(lake / "orders")
    append_commit(lake / "orders", 1, [add(f"{number}.parquet") for number in range(5)])
    table = register_table(str(lake / "orders"))
    commit = Commit.objects.get(table=table, version=1)
    assert (table.file_count, table.live_files_mirrored, LiveFile.objects.count()) == (5, 3, 3)
    assert (commit.files_added, commit.files_mirrored, commit.files.count()) == (5, 2, 2)
    assert len(commit.raw) == 40 < commit.raw_bytes


def test_hostile_values_of_a_log_become_rows(lake):
    new_table(lake / "orders")
    info = {
        "operation": "WRITE\0" + "x" * 500,
        "readVersion": 2**62,
        "userMetadata": "<script>\0",
        "operationParameters": {"predicate": "[" * 50, "\0key": "\0value"},
    }
    append_commit(lake / "orders", 1, [add("a\0.parquet")], info=info)
    table = register_table(str(lake / "orders"))
    commit = Commit.objects.get(table=table, version=1)
    assert "\0" not in commit.operation + commit.user_metadata
    assert len(commit.operation) == 100
    assert table.mirror_error_code == ""


def test_texts_with_the_separators_of_a_copy_stay_unchanged(lake):
    new_table(lake / "orders")
    odd = "tab\t, line\n, return\r, \\N, \\., \\t and '\""
    info = {"operation": "WRITE", "userMetadata": odd, "operationParameters": {odd: odd}}
    append_commit(lake / "orders", 1, [add(odd, rows=None)], info=info)
    commit = register_table(str(lake / "orders")).commits.get(version=1)
    assert (commit.user_metadata, commit.operation_parameters) == (odd, {odd: odd})
    assert [(file.path, file.row_count) for file in commit.files.all()] == [(odd, None)]


def test_a_log_of_several_batches_is_mirrored_whole(lake, settings):
    settings.MIRROR_COMMITS_A_BATCH = 2
    new_table(lake / "orders")
    for version in range(1, 6):
        append_commit(lake / "orders", version, [add(f"{version}.parquet", rows=version)])
    table = register_table(str(lake / "orders"))
    assert list(table.commits.order_by("version").values_list("version", flat=True)) == [*range(6)]
    assert (table.version, table.file_count, table.row_count) == (5, 5, 15)


@pytest.mark.parametrize("table", REFUSED, ids=lambda table: table.name)
def test_a_table_without_a_readable_log_is_refused_with_a_reason(table, lake):
    assert_refused_with_a_reason(table.make(lake))


@pytest.mark.parametrize("table", READABLE + UNREADABLE, ids=lambda table: table.name)
def test_a_table_of_another_engine_is_mirrored(table, lake):
    assert_mirrored(table.make(lake))


def _refuses_to_open(expected) -> bool:
    return expected["expect_error_stage"] == "open"


@pytest.mark.parametrize("expected", reference_cases(EXPECTED, where=_refuses_to_open))
def test_a_real_table_without_a_readable_log_is_refused_with_a_reason(
    expected, reference, settings
):
    settings.TABLE_ROOTS = [str(reference)]
    assert_refused_with_a_reason(reference / "tables" / expected["table"])


@pytest.mark.parametrize(
    "expected", reference_cases(EXPECTED, where=lambda line: not _refuses_to_open(line))
)
def test_every_real_table_is_mirrored_or_says_what_it_lacks(expected, reference, settings):
    settings.TABLE_ROOTS = [str(reference)]
    assert_mirrored(reference / "tables" / expected["table"])


def assert_refused_with_a_reason(place: Path) -> None:
    reason = ""
    try:
        reason = register_table(str(place)).mirror_error
    except EngineError as error:
        reason = str(error)
    assert len(reason) > 30
    assert Table.objects.filter(mirror_error="").count() == 0


def assert_mirrored(place: Path) -> None:
    table = register_table(str(place))
    table.refresh_from_db()
    if table.mirror_error_code == "DELTA_UNSUPPORTED_FEATURES":
        assert "uses" in table.mirror_error
        assert table.commits.exists()
        return
    assert table.mirror_error_code == ""
    snapshot = DeltaTable.open(str(place)).snapshot()
    assert (table.version, table.file_count) == (snapshot.version, snapshot.file_count)
    assert LiveFile.objects.filter(table=table).count() == snapshot.file_count


def _contents(table: Table) -> list[object]:
    skipped = {"id", "commit_id", "mirrored_at", "mirror_tried_at", "registered_at"}
    rows = [
        *Table.objects.filter(pk=table.pk).values(),
        *Commit.objects.order_by("version").values(),
        *CommitFile.objects.order_by("commit__version", "path").values(),
        *LiveFile.objects.order_by("path").values(),
    ]
    return [{key: value for key, value in row.items() if key not in skipped} for row in rows]
