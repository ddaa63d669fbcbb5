# ruff: noqa: S608 - statements are what is tested
"""Large merges: Spark's join strategy does not affect the result."""

from dataclasses import replace

import pytest

from engine.commands.merge import Merge
from engine.commands.sources import DataFrameSource
from engine.commands.sql import parse_statement
from engine.errors import MultipleSourceRowsError
from engine.operations.execution import Execution
from engine.operations.merge.merge_rows import (
    choose_pair_columns,
    joins_by_equality,
    source_columns,
)
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.spark.collection import broadcast_if_small, may_send
from engine.spark.scan.reader import ROW_ID, ScanRequest, scan
from tests.engine.operations.conftest import IN_PROCESS
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
MORE = [f"c{number}" for number in range(22)]
WIDE = ", ".join(f"{name} INT" for name in MORE)
ROW_IDS = "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
NO_VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
NEW = ", ".join(f"({3 * i}, 'new', {'NULL' if i % 4 == 0 else i})" for i in range(12))
SOURCE = f"(VALUES {NEW}) AS s (id, name, v)"
MERGES = {
    "all": "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id, name = s.name, v = s.v"
    " WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (s.id, s.name, s.v)",
    "some": "ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE"
    " WHEN MATCHED AND t.id > 6 THEN UPDATE SET v = t.v + s.v"
    " WHEN MATCHED AND t.id < 4 THEN UPDATE SET name = concat(s.name, t.name)"
    " WHEN NOT MATCHED AND s.v > 5 THEN INSERT (id, v) VALUES (s.id, s.v)",
    "deletes": "ON t.id > s.id AND s.v > 3 WHEN MATCHED AND t.id > 18 THEN DELETE",
    "inserts": "ON t.id = s.id AND t.v < 15 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    "ranges": "ON t.id >= s.id AND s.v > 100 WHEN NOT MATCHED AND s.v < 2 THEN INSERT (id) VALUES (-s.id)",
    "the rest": "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name"
    " WHEN NOT MATCHED BY SOURCE AND t.id > 10 THEN UPDATE SET v = -1"
    " WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN DELETE",
}


def _create_table(do, more, properties):
    do(f"CREATE TABLE t (id BIGINT, name STRING, v BIGINT{more}) USING DELTA {properties}")
    for ids in (range(12), range(12, 25)):
        rows = ", ".join(f"({i}, 'n{i % 3}', {i})" for i in ids)
        do(f"INSERT INTO t (id, name, v) VALUES {rows}", in_process_bytes=IN_PROCESS)
    do("DELETE FROM t WHERE id = 21", in_process_bytes=IN_PROCESS)


def _rows(table):
    rows = table.snapshot().to_arrow(columns=["id", "name", "v"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.fixture
def each_way(do, spark, empty_table):
    """Return a function that runs a MERGE with a broadcast source, then without at the same version."""

    def both(text: str) -> tuple[object, ...]:
        before, left = empty_table.version(), []
        for threshold in ("10m", "-1"):
            spark.conf.set(THRESHOLD, threshold)
            result = do(f"MERGE INTO t USING {SOURCE} {text}")
            counts = {k: v for k, v in result.metrics.items() if k.startswith("numTargetRows")}
            left.append((_rows(empty_table), counts))
            do(f"RESTORE TABLE t TO VERSION AS OF {before}")
        assert left[0] == left[1]
        return left[0]

    yield both
    spark.conf.unset(THRESHOLD)


@pytest.mark.parametrize(
    "table", one_in(2, [("", ROW_IDS), (f", {WIDE}", FEED), ("", NO_VECTORS), (f", {WIDE}", "")])
)
def test_a_source_sent_to_every_task_joins_the_same_rows(each_way, do, table):
    more, properties = table
    _create_table(do, more, properties)
    rows, counts = each_way(MERGES["all"])
    assert [row for row in rows if row[1] == "new"] == sorted(
        ((3 * i, "new", None if i % 4 == 0 else i) for i in range(12)), key=repr
    )
    assert (len(rows), counts["numTargetRowsUpdated"], counts["numTargetRowsInserted"]) == (
        28,
        8,
        4,
    )
    rows, counts = each_way(MERGES["some"])
    by_id = {row[0]: row[1:] for row in rows}
    assert (by_id[3], by_id[9], by_id[6]) == (("newn0", 3), ("n0", 12), ("n0", 6))
    assert {0, 12, 24} & by_id.keys() == set()
    assert by_id[33] == (None, 11)
    assert counts["numTargetRowsDeleted"] == 3


@pytest.mark.parametrize("name", one_in(2, ["the rest", "deletes", "inserts", "ranges"]))
def test_every_kind_of_clause_does_the_same_however_the_sides_are_joined(each_way, do, name):
    _create_table(do, "", "")
    rows, counts = each_way(MERGES[name])
    deleted = {"deletes": [19, 20, 22, 23, 24], "the rest": [1, 2]}.get(name, [])
    assert not set(deleted) & {row[0] for row in rows}
    assert counts["numTargetRowsDeleted"] == len(deleted)
    assert len(rows) == 24 - len(deleted) + counts["numTargetRowsInserted"]
    inserted = {"inserts": [15, 18, 21, 24, 27, 30, 33], "ranges": [-3]}.get(name, [])
    assert counts["numTargetRowsInserted"] == len(inserted)


def test_row_ids_stay_where_images_are_made_as_rows_are_found(do, empty_table, spark):
    _create_table(do, "", ROW_IDS)
    ids = _row_ids(empty_table, spark)
    do(f"MERGE INTO t USING {SOURCE} {MERGES['all']}")
    after = _row_ids(empty_table, spark)
    assert {key: after[key] for key in ids} == ids
    assert len(set(after.values())) == len(after) == 28


def _row_ids(table, spark):
    snapshot = table.snapshot()
    request = ScanRequest(list(snapshot.add_files()), row_ids=True)
    rows = scan(spark, Execution(table, spark).files_of(snapshot), request).collect()
    return {row["id"]: row[ROW_ID] for row in rows}


def test_a_row_that_two_source_rows_would_change_leaves_no_file_behind(do, empty_table):
    _create_table(do, "", "")
    before = sorted(status.path for status in empty_table.store.list_all())
    with pytest.raises(MultipleSourceRowsError):
        do(
            "MERGE INTO t USING (VALUES (1, 1), (2, 2), (1, 3)) AS s (id, v) ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.v"
        )
    assert sorted(status.path for status in empty_table.store.list_all()) == before


def test_a_merge_of_many_tasks_leaves_few_files(do, empty_table, spark):
    _create_table(do, "", "")
    command = parse_statement(
        "MERGE INTO t USING delta.`/other` AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    source = spark.range(0, 60, 1, 16).selectExpr("id", "'x' AS name", "id AS v")
    result = do(replace(command, source=DataFrameSource(source)))
    assert result.metrics["numTargetRowsInserted"] == 36
    assert result.metrics["numTargetFilesAdded"] == 2


PLAIN = StructType(
    tuple(StructField(name, kind) for name, kind in (("id", LONG), ("name", STRING), ("v", LONG)))
)
GENERATED = StructType(
    (*PLAIN, StructField("g", LONG, metadata={"delta.generationExpression": "v + 1"}))
)
CARRIED = [
    # settings, table, full read, and expected pairs
    (
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, v = s.v",
        PLAIN,
        False,
        "id|name v",
    ),
    ("ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", PLAIN, False, "|id name v"),
    ("ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1", PLAIN, False, None),
    ("ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1", PLAIN, True, "id name|"),
    (
        "ON t.id = s.id WHEN MATCHED AND t.name > 'a' THEN UPDATE SET v = s.v",
        PLAIN,
        False,
        "id name|v",
    ),
    ("ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1", PLAIN, False, None),
    (
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, v = s.v",
        GENERATED,
        False,
        "id|name v",
    ),
    (
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, g = s.v + 1",
        GENERATED,
        True,
        "id v|name v",
    ),
    ("ON t.id = s.id WHEN MATCHED THEN DELETE", PLAIN, True, None),
    ("ON t.id = s.id WHEN NOT MATCHED THEN INSERT *", PLAIN, True, None),
    (
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE",
        PLAIN,
        True,
        None,
    ),
]


def _analyze(text, target):
    command = parse_statement(f"MERGE INTO t USING delta.`/other` AS s {text}")
    assert isinstance(command, Merge)
    return command.analyze(target, PLAIN)


@pytest.mark.parametrize(("text", "target", "reads_all", "held"), CARRIED)
def test_pairs_carry_the_values_of_images_where_matching_reads_them(text, target, reads_all, held):
    merge = _analyze(text, target)
    carried = choose_pair_columns(
        merge, target, set(PLAIN.names), reads_all=reads_all, row_ids=False
    )
    said = carried and "|".join((" ".join(carried.target), " ".join(carried.source)))
    assert said == held


def test_a_source_column_under_another_name_is_not_cached():
    merge = _analyze("ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", PLAIN)
    assert (
        choose_pair_columns(merge, PLAIN, {"ID", "name", "v"}, reads_all=True, row_ids=False)
        is None
    )


def test_matching_reads_the_columns_named_in_on_and_conditions():
    merge = _analyze(
        "ON t.id = s.id WHEN MATCHED AND s.v > 1 THEN UPDATE SET name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
        PLAIN,
    )
    assert source_columns(merge, None) == {"id", "v"}


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("t.id = s.id", True),
        ("t.v > 3 AND s.id + 1 <=> t.id", True),
        ("t.id > s.id", False),
        ("t.id = t.v", False),
        ("t.id = s.id + t.v", False),
        ("t.id = 3 AND s.id = 3", False),
    ],
)
def test_on_is_known_to_join_by_equality(on, expected):
    merge = _analyze(f"ON {on} WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", PLAIN)
    assert joins_by_equality(merge.on) == expected


@pytest.mark.parametrize(
    ("threshold", "limit", "size", "expected"),
    [
        ("10485760b", "1g", 60 << 20, True),
        ("10m", "1g", 70 << 20, False),
        ("-1", "1g", 1000, False),
        ("-1b", "1g", 1000, False),
        ("10m", "4k", 1000, True),
        ("10m", "4k", 3000, False),
        ("10m", "0", 60 << 20, True),
        ("10m", "much", 1000, False),
        ("", "", 1000, True),
    ],
)
def test_a_side_is_broadcast_where_it_is_small_and_the_session_permits_it(
    threshold, limit, size, expected
):
    assert may_send(size, threshold, limit) == expected


def test_a_small_side_is_broadcast(spark):
    frame = spark.range(3)
    sent, kept = broadcast_if_small(frame, 1000), broadcast_if_small(frame, 1 << 30)
    plans = [one._jdf.queryExecution().analyzed().toString() for one in (sent, kept)]
    assert ["broadcast" in plan for plan in plans] == [True, False]
    assert sent.count() == kept.count() == 3
