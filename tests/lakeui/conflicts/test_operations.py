"""Commands and commits as operations: never narrower than their reads."""

import json

import pytest

from engine.commands.model import Restore, Stream
from engine.commands.sql import parse_request
from engine.conflict_facts import Verdict
from engine.conflicts.predict.forecast import ForecastSide, forecast
from engine.conflicts.predict.sample_table import TableSetting
from engine.conflicts.reads import COMPLEX_VALUES, READS_TARGET, SUBQUERY
from engine.protocol.properties import IsolationLevel
from engine.schema.types import parse_schema
from engine.vocabulary import StatementKind
from lakeui.catalog.models import Commit
from lakeui.conflicts.statements.operations import Target, operation_of, operation_of_commit
from lakeui.conflicts.statements.text import statement_kind
from tests.lakeui.people import make_table

SCHEMA = json.dumps({"type": "struct", "fields": [
    {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
    {"name": "day", "type": "string", "nullable": True, "metadata": {}},
    {"name": "place", "nullable": True, "metadata": {}, "type":
     {"type": "struct", "fields": [
         {"name": "x", "type": "integer", "nullable": True, "metadata": {}}]}},
]})  # fmt: skip
TARGET = Target("sales", "memory://sales", parse_schema(SCHEMA), SCHEMA)
SETTING = TableSetting(IsolationLevel.WRITE_SERIALIZABLE, vectors=True)


def parse_operation(statement: str) -> ForecastSide:
    return operation_of(parse_request(statement)[0], TARGET)


def merge(source: str, on: str, rest: str = "THEN DELETE") -> ForecastSide:
    return parse_operation(f"MERGE INTO sales AS t USING {source} AS s ON {on} WHEN MATCHED {rest}")


DELETE_7 = parse_operation("DELETE FROM sales WHERE id = 7")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM sales WHERE id < 3 AND id IN (SELECT max(id) FROM sales)",
        "UPDATE sales SET day = (SELECT max(day) FROM sales) WHERE id < 3",
        "MERGE INTO sales AS t USING x AS s ON t.id = s.id AND t.id < 3"
        " WHEN MATCHED AND t.id > (SELECT avg(id) FROM sales) THEN DELETE",
        "INSERT INTO sales BY NAME SELECT * FROM sales",
    ],
)
def test_a_subquery_over_the_table_itself_reads_all_of_it(statement):
    operation = parse_operation(statement)
    assert operation.reads_all
    assert forecast(SETTING, operation, DELETE_7).verdict is Verdict.ALWAYS


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO sales REPLACE WHERE id < 3 SELECT * FROM sales WHERE id > 5",
        "MERGE INTO sales AS t USING (SELECT * FROM sales WHERE id > 5) AS s"
        " ON t.id = s.id AND t.id < 3 WHEN MATCHED THEN DELETE",
    ],
)
def test_a_source_that_reads_the_table_reads_more_than_the_condition_says(statement):
    operation = parse_operation(statement)
    assert operation.conditions is None
    assert forecast(SETTING, operation, DELETE_7).verdict is not Verdict.NEVER


def test_an_insert_from_its_own_table_reads_the_rows_its_query_selects():
    few = parse_operation("INSERT INTO sales BY NAME SELECT * FROM sales WHERE id < 3")
    assert forecast(SETTING, few, DELETE_7).verdict is Verdict.NEVER
    joined = parse_operation(
        "INSERT INTO sales BY NAME SELECT a.* FROM sales a JOIN x ON a.id = x.id"
    )
    assert forecast(SETTING, joined, DELETE_7).verdict is Verdict.SAME_ROW
    earlier = parse_operation("INSERT INTO sales BY NAME SELECT * FROM sales VERSION AS OF 3")
    assert earlier.kind is StatementKind.INSERT


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM sales WHERE id IN (SELECT id FROM other)",
        "INSERT INTO sales REPLACE ON sales.id = s.id (SELECT * FROM other) AS s",
    ],
)
def test_a_condition_of_subqueries_alone_opens_every_file(statement):
    operation = parse_operation(statement)
    assert (operation.opens_all, operation.obstacle) == (True, SUBQUERY)
    assert forecast(SETTING, operation, DELETE_7).verdict is Verdict.ALWAYS


def test_a_merge_is_understood_by_its_own_aliases():
    """The source has an alias that targets usually have."""
    swapped = parse_operation(
        "MERGE INTO sales AS target USING x AS t ON target.id = t.id AND t.id < 3"
        " WHEN MATCHED THEN DELETE"
    )
    assert forecast(SETTING, swapped, DELETE_7).verdict is not Verdict.NEVER
    own = parse_operation(
        "MERGE INTO sales AS orders USING x AS t ON orders.id = t.id AND orders.id < 3"
        " WHEN MATCHED THEN DELETE"
    )
    assert forecast(SETTING, own, DELETE_7).verdict is Verdict.NEVER


@pytest.mark.parametrize(
    ("operation", "obstacle"),
    [
        (merge("x", "t.id = s.id"), None),
        (merge("sales", "t.id = s.id"), READS_TARGET),
        (merge("x", "t.id = s.id", "AND t.place.x > 1 THEN DELETE"), COMPLEX_VALUES),
        (merge("x", "t.id = s.id", "THEN UPDATE SET day = (SELECT max(day) FROM y)"), SUBQUERY),
    ],
)
def test_a_merge_is_decided_by_files_where_rows_cannot_tell(operation, obstacle):
    assert operation.obstacle == obstacle


def test_a_clause_by_source_opens_every_file_and_rows_still_decide():
    operation = merge(
        "x", "t.id = s.id AND t.id < 3", "THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert forecast(SETTING, operation, DELETE_7).verdict is Verdict.SAME_ROW
    by_files = TableSetting(IsolationLevel.WRITE_SERIALIZABLE, vectors=False)
    assert forecast(by_files, operation, DELETE_7).verdict is Verdict.ALWAYS


def test_vacuum_overlaps_with_nothing():
    alter = parse_operation("ALTER TABLE sales SET TBLPROPERTIES ('a' = 'b')")
    assert forecast(SETTING, parse_operation("VACUUM sales"), alter).verdict is Verdict.NEVER


def test_a_replaced_schema_is_ordered_before_no_append():
    replaced = ForecastSide(kind=StatementKind.OVERWRITE, changes_metadata=True)
    insert = parse_operation("INSERT INTO sales VALUES (1, 'a', null)")
    assert forecast(SETTING, replaced, insert).verdict is Verdict.ALWAYS
    kept = ForecastSide(kind=StatementKind.OVERWRITE)
    assert forecast(SETTING, kept, insert).verdict is Verdict.EXEMPT


@pytest.mark.django_db
def test_a_restore_past_a_change_of_metadata_stops_every_write():
    table = make_table(name="sales", schema=json.loads(SCHEMA))
    Commit.objects.filter(table=table, version=1).update(changes_metadata=True)
    target = Target.from_table(table)
    insert = parse_operation("INSERT INTO sales VALUES (1, 'a', null)")
    before, after = {"version": 0}, {"version": 1}
    for point, verdict in (
        (before, Verdict.ALWAYS),
        ({"timestamp": "2020-01-01"}, Verdict.ALWAYS),
        (after, Verdict.NEVER),
    ):
        restore = operation_of(Restore(table="sales", **point), target)
        assert forecast(SETTING, insert, restore).verdict is verdict


@pytest.mark.django_db
def test_two_runs_of_one_stream_conflict_however_its_source_is_named():
    source = make_table(name="clicks", table_uuid="7")
    by_name, by_place, other = (
        operation_of(Stream(source_table=name, stream_name=stream), TARGET)
        for name, stream in ((source.name, ""), (source.uri, ""), (source.name, "second"))
    )
    landed = operation_of_commit(
        Commit(
            operation="STREAMING UPDATE",
            is_blind_append=True,
            operation_parameters={"queryId": f"lake-stream:{source.uri}:7"},
        ),
        TARGET,
    )
    for winner in (by_place, landed):
        told = forecast(SETTING, by_name, winner)
        assert told.exceptions == ("ConcurrentTransactionException",)
        assert forecast(SETTING, other, winner).verdict is Verdict.NEVER


def test_an_update_in_delta_sparks_log_is_not_always_one():
    assert statement_kind("UPDATE SCHEMA") == statement_kind("UPDATE COLUMN METADATA")
    assert statement_kind("REPLACE COLUMNS") == "ALTER, SET"
    backfill = operation_of_commit(Commit(operation="ROW TRACKING BACKFILL"), TARGET)
    restore = ForecastSide(kind=StatementKind.RESTORE)
    assert forecast(SETTING, restore, backfill).verdict is Verdict.ALWAYS


def test_an_overwrite_of_some_partitions_is_no_overwrite_of_all():
    parameters = {"mode": "Overwrite", "isDynamicPartitionOverwrite": "true"}
    dynamic = operation_of_commit(
        Commit(operation="WRITE", operation_parameters=parameters), TARGET
    )
    assert dynamic.kind is StatementKind.MERGE
