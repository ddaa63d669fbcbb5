"""PARTITION, DEFAULT, REPLACE USING and ON, and WITH before a statement, on a table."""

import pytest

from engine.errors import EngineError, RequestError, TableNotFoundError
from engine.storage.uri import open_store
from engine.table import DeltaTable

CREATE = (
    "CREATE TABLE t (a BIGINT DEFAULT 7, p INT, b STRING DEFAULT 'x', q STRING, "
    "g BIGINT GENERATED ALWAYS AS (a + 1)) PARTITIONED BY (p, q) "
    "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
)


def rows(table):
    return sorted(
        (tuple(row.values()) for row in table.snapshot().to_arrow().to_pylist()), key=repr
    )


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("INSERT INTO t PARTITION (p = 1, q) (a, b, q) VALUES (1, 'y', 'k')", (1, 1, "y", "k", 2)),
        ("INSERT INTO t PARTITION (q, p = '1') (a, q) VALUES (1, 'k')", (1, 1, "x", "k", 2)),
        ("INSERT INTO t (b) PARTITION (p = 1, q = 'k') VALUES (DEFAULT)", (7, 1, "x", "k", 8)),
        ("INSERT INTO t PARTITION (q = NULL) (a, p) VALUES (DEFAULT, 3)", (7, 3, "x", None, 8)),
        ("INSERT INTO t (a, b, p, q) VALUES (DEFAULT, DEFAULT, DEFAULT, 'k')", (7, None, "x", "k", 8)),
    ],
)  # fmt: skip
def test_partition_and_default_give_values(do_lightly, empty_table, sql, row):
    do_lightly(CREATE)
    do_lightly(sql)
    assert rows(empty_table) == [row]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("INSERT INTO t PARTITION (a = 1) (b) VALUES ('y')", "a is in PARTITION, but is not"),
        ("INSERT INTO t PARTITION (z = 1) (b) VALUES ('y')", "z is in PARTITION, but is not"),
        ("INSERT INTO t PARTITION (p = 1) (b, P) VALUES ('y', 2)", "also in the list of columns"),
        ("INSERT INTO t (g) VALUES (DEFAULT)", "g cannot be set to DEFAULT"),
        ("UPDATE t SET g = DEFAULT", "g cannot be set to DEFAULT"),
    ],
)
def test_invalid_combinations_of_partition_and_default_are_refused(do_lightly, sql, why):
    do_lightly(CREATE)
    with pytest.raises(EngineError, match=why) as caught:
        do_lightly(sql)
    assert caught.value.remedy


def test_update_and_merge_apply_defaults(do_lightly, empty_table):
    do_lightly(CREATE)
    do_lightly("INSERT INTO t (a, p, b, q) VALUES (1, 1, 'y', 'k'), (2, 1, 'z', 'k')")
    do_lightly("UPDATE t SET b = DEFAULT WHERE t.a = 1")
    do_lightly(
        "MERGE INTO t USING (VALUES (2), (3)) AS s (a) ON t.a = s.a WHEN MATCHED THEN UPDATE "
        "SET b = DEFAULT, t.p = DEFAULT WHEN NOT MATCHED THEN INSERT (a, b, q) VALUES (s.a, DEFAULT, 'm')"
    )
    assert rows(empty_table) == [
        (1, 1, "x", "k", 2),
        (2, None, "x", "k", 3),
        (3, None, "x", "m", 4),
    ]


def test_columns_are_added_at_places_of_their_own(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (a INT, s STRUCT<x: INT>)")
    do_lightly(
        "ALTER TABLE t ADD COLUMNS (f INT FIRST, g INT AFTER f, s.y INT FIRST, z INT, h INT AFTER a)"
    )
    schema = empty_table.snapshot().schema
    assert schema.names == ["f", "g", "a", "h", "s", "z"]
    assert schema.get("s").type.names == ["y", "x"]


def test_comments_are_descriptions(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (a INT)")
    do_lightly("COMMENT ON TABLE t IS 'of orders'")
    do_lightly("COMMENT ON COLUMN t.a IS 'pieces'")
    snapshot = empty_table.snapshot()
    assert snapshot.metadata.description == "of orders"
    assert snapshot.schema.get("a").metadata["comment"] == "pieces"
    assert "comment" not in snapshot.metadata.configuration
    do_lightly("COMMENT ON TABLE t IS NULL")
    assert empty_table.snapshot().metadata.description is None


def test_one_statement_drops_vectors_that_are_switched_on(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (a INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    do_lightly("INSERT INTO t VALUES (1)")
    drop = "ALTER TABLE t DROP FEATURE deletionVectors"
    plan = do_lightly(drop, dry_run=True).plan
    assert "would be disabled" in plan.summary
    assert len(do_lightly(drop).versions) == 3, "switched off, a checkpoint's version, dropped"
    snapshot = empty_table.snapshot()
    assert "deletionVectors" not in (snapshot.protocol.reader_features or [])
    assert not snapshot.properties.enable_deletion_vectors
    assert snapshot.row_count == 1


@pytest.fixture
def lake(do, empty_table, tmp_path):
    tables = {"t": empty_table, "s": DeltaTable(open_store(str(tmp_path / "s")))}

    def resolve(name):
        if name not in tables:
            what = f"There is no table {name}."
            raise TableNotFoundError(what, "Register it.")
        return tables[name]

    def perform(sql, at="t"):
        return do(sql, table=tables[at], resolve=resolve)

    perform("CREATE TABLE t (a INT, p INT, q STRING) PARTITIONED BY (p, q)")
    perform("INSERT INTO t VALUES (1, 1, 'k'), (2, 1, 'm'), (3, 2, 'k'), (4, NULL, 'k')")
    perform("CREATE TABLE s AS SELECT * FROM VALUES (9, 1, 'k') AS v(a, p, q)", "s")
    return perform


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_the_statement_decides_which_rows_are_replaced(lake, empty_table):
    before = empty_table.version()
    for sql, left in [
        ("INSERT OVERWRITE t PARTITION (p = 1, q) SELECT 8, 'n'",
         [(3, 2, "k"), (4, None, "k"), (8, 1, "n")]),
        ("INSERT OVERWRITE t PARTITION (p = 1, q) WITH ('partitionOverwriteMode' = 'dynamic') SELECT 8, 'm'",
         [(1, 1, "k"), (3, 2, "k"), (4, None, "k"), (8, 1, "m")]),
        ("INSERT INTO t REPLACE USING (p, q) VALUES (8, 1, 'k'), (9, NULL, 'k')",
         [(2, 1, "m"), (3, 2, "k"), (4, None, "k"), (8, 1, "k"), (9, None, "k")]),
        ("INSERT INTO t AS x BY NAME REPLACE ON x.p <=> n.p (SELECT a, CAST(NULL AS INT) AS p, q FROM s) AS n",
         [(1, 1, "k"), (2, 1, "m"), (3, 2, "k"), (9, None, "k")]),
        ("WITH c AS (SELECT p, max(a) AS n FROM s GROUP BY p) MERGE INTO t USING c ON t.p = c.p "
         "WHEN MATCHED THEN UPDATE SET a = c.n",
         [(3, 2, "k"), (4, None, "k"), (9, 1, "k"), (9, 1, "m")]),
    ]:  # fmt: skip
        lake(sql)
        assert rows(empty_table) == sorted(left, key=repr), sql
        lake(f"RESTORE TABLE t TO VERSION AS OF {before}")
    for query in ("SELECT * FROM s LIMIT 1", "SELECT CAST(rand() AS INT), p, q FROM s"):
        with pytest.raises(RequestError, match="read twice"):
            lake(f"INSERT INTO t REPLACE USING (p) {query}")
