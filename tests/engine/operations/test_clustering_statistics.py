"""Statistics of clustering columns (protocol: Writer Requirements for Clustered Table)."""

import json

import pytest

from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable

_FORTY = ", ".join(f"c{number} BIGINT" for number in range(40))
_VALUES = ", ".join(map(str, range(40)))


@pytest.mark.parametrize(
    ("definition", "values", "column"),
    [
        (f"({_FORTY}) CLUSTER BY (c39)", _VALUES, "c39"),
        (
            "(a BIGINT, b BIGINT) CLUSTER BY (a)"
            " TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')",
            "1, 2",
            "a",
        ),
        (
            "(a BIGINT, b BIGINT) CLUSTER BY (a)"
            " TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'b')",
            "1, 2",
            "a",
        ),
    ],
)
def test_clustering_columns_always_have_statistics(tmp_path, definition, values, column):
    table = DeltaTable(open_store(str(tmp_path)))
    run(parse_statement(f"CREATE TABLE t {definition}"), table, None)
    run(parse_statement(f"INSERT INTO t VALUES ({values})"), table, None)  # noqa: S608 - of the cases
    (add,) = table.snapshot().add_files()
    assert column in json.loads(add.stats)["minValues"]


def test_columns_that_a_table_is_clustered_by_later_have_statistics_from_then_on(tmp_path):
    table = DeltaTable(open_store(str(tmp_path)))
    options = "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')"
    run(parse_statement(f"CREATE TABLE t (a BIGINT, b BIGINT) {options}"), table, None)
    run(parse_statement("ALTER TABLE t CLUSTER BY (b)"), table, None)
    run(parse_statement("INSERT INTO t VALUES (1, 2)"), table, None)
    (add,) = table.snapshot().add_files()
    assert json.loads(add.stats)["minValues"] == {"b": 2}
