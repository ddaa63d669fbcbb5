"""CHAR and VARCHAR on Spark: generated columns are computed from the text as stored."""

import pytest

from engine.snapshot.change_feed import read_changes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

MERGE = (
    "MERGE INTO t USING (VALUES (1, 'm'), (3, 'n    ')) AS s (id, c) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET c = s.c WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)"
)


@pytest.fixture(params=["CHAR(3)", "VARCHAR(3)"])
def run_and_compare(request, do, empty_table):
    """Run statements on Spark; return the table's rows and the rows that the change feed adds up to."""
    do(
        f"CREATE TABLE t (id BIGINT, c {request.param}, n INT GENERATED ALWAYS AS (length(c)))"
        " USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    width = 3 if request.param == "CHAR(3)" else 1

    def run_and_read(*statements):
        for text in statements:
            do(text, in_process_bytes=0)
        live = empty_table.snapshot().to_arrow().to_pylist()
        told = {}
        for row in read_changes(empty_table, 1).to_pylist():
            key = row["id"], row["c"], row["n"]
            sign = 1 if row["_change_type"] in {"insert", "update_postimage"} else -1
            told[key] = told.get(key, 0) + sign
        assert {key for key, count in told.items() if count} == {tuple(r.values()) for r in live}
        return {row["id"]: (row["c"], row["n"]) for row in live}

    return run_and_read, width


def test_a_generated_column_is_computed_from_the_stored_text(run_and_compare):
    after, width = run_and_compare
    rows = after("INSERT INTO t (id, c) VALUES (1, 'a'), (2, 'abc    ')")
    assert rows == {1: ("a".ljust(width), width), 2: ("abc", 3)}


@pytest.mark.parametrize("text", ["UPDATE t SET c = concat('b', c, '    ') WHERE id = 1", MERGE])
def test_the_change_feed_has_texts_as_stored(text, run_and_compare):
    after, width = run_and_compare
    rows = after("INSERT INTO t (id, c) VALUES (1, 'a'), (2, 'b')", text)
    if text == MERGE:
        assert rows[1] == ("m".ljust(width), width)
        assert rows[3] == ("n  ", 3)
    else:
        assert rows[1] == ("ba ", 3)
