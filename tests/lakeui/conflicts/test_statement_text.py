"""A commit as its probable statement, with an ellipsis for parts that a log does not keep."""

import pytest

from lakeui.conflicts.statements.text import statement_text

MERGED = '[{"predicate":"s.x > t.x","actionType":"update"}]'


@pytest.mark.parametrize(
    ("operation", "parameters", "where", "said"),
    [
        ("DELETE", {}, "id = 1", "DELETE FROM t\nWHERE id = 1"),
        ("UPDATE", {}, "id = 1", "UPDATE t\nSET …\nWHERE id = 1"),
        ("UPDATE", {"predicate": "[]"}, "", "UPDATE t\nSET …"),
        ("DELETE", {}, "", "DELETE FROM t\nWHERE …"),
        ("WRITE", {"mode": "Append"}, "", "INSERT INTO t\n…"),
        ("WRITE", {"mode": "Overwrite"}, "", "INSERT OVERWRITE t\n…"),
        ("WRITE", {"mode": "Overwrite"}, "d = 1", "INSERT INTO t\nREPLACE WHERE d = 1\n…"),
        ("OPTIMIZE", {"zOrderBy": '["a","b"]'}, "", "OPTIMIZE t\nZORDER BY (a, b)"),
        ("OPTIMIZE", {"zOrderBy": "[]"}, "d = 1", "OPTIMIZE t\nWHERE d = 1"),
        (
            "MERGE",
            {"matchedPredicates": MERGED, "notMatchedPredicates": '[{"actionType":"insert"}]'},
            "t.id = s.id",
            "MERGE INTO t\nUSING …\nON t.id = s.id\nWHEN MATCHED AND s.x > t.x THEN UPDATE\n"
            "WHEN NOT MATCHED THEN INSERT",
        ),
        ("MERGE", {"matchedPredicates": "not JSON"}, "", "MERGE INTO t\nUSING …\nON …"),
        (
            "SET TBLPROPERTIES",
            {"properties": '{"delta.appendOnly":"true"}'},
            "",
            "ALTER TABLE t\nSET TBLPROPERTIES ('delta.appendOnly' = 'true')",
        ),
        ("RESTORE", {"version": 3}, "", "RESTORE TABLE t TO VERSION AS OF 3"),
        ("COMPUTE STATS", {"x": 1}, "", ""),
    ],
)
def test_a_log_entry_is_described_as_far_as_recorded(operation, parameters, where, said):
    assert statement_text("t", operation, parameters, where) == said
