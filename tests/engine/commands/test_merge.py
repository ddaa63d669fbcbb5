"""The columns and conditions that a MERGE reads and writes, as trees."""

import pytest

from engine.commands.sql import parse_statement
from engine.errors import EngineError, ExpressionError, UnknownColumnError
from engine.expressions.render import to_sql
from engine.expressions.tree import TRUE
from engine.schema.types import DATE, LONG, STRING, StructField, StructType
from engine.schema.write_errors import NotDeterministicError

TARGET = StructType((StructField("id", LONG), StructField("date", DATE), StructField("v", STRING)))
SOURCE = StructType(
    (
        StructField("ID", LONG),
        StructField("date", DATE),
        StructField("v", STRING),
        StructField("op", STRING),
    )
)


def _analyze(clauses, on="t.id = s.id"):
    text = f"MERGE INTO db.t USING src AS s ON {on} {clauses}"
    return parse_statement(text).analyze(TARGET, SOURCE, now_ms=0)


UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize(
    ("on", "read"),
    [
        ("t.id = s.id", None),
        ("t.id = s.id AND t.date = DATE '2026-11-02'", "`date` = DATE '2026-11-02'"),
        (
            "t.date IN ('2026-11-02') AND t.v = 'DE' AND s.op = 'x'",
            "(`date` IN ('2026-11-02')) AND (`v` = 'DE')",
        ),
        ("t.id = s.id OR t.date = DATE '2026-11-02'", None),
        ("t.id = s.id AND (t.v = 'a' OR s.v = 'a')", None),
        ("t.id = s.id AND FALSE", "FALSE"),
    ],
)
def test_a_merge_reads_the_rows_that_its_target_conditions_select(on, read):
    condition = _analyze(UPSERT, on).target_condition()
    assert condition == TRUE if read is None else to_sql(condition) == read


@pytest.mark.parametrize(
    ("clauses", "on", "where"),
    [
        (UPSERT, "t.id = s.id AND rand() < 0.5", "of ON"),
        ("WHEN MATCHED AND rand() < 0.5 THEN DELETE", "t.id = s.id", r"clause 1 \(WHEN MATCHED\)"),
        ("WHEN NOT MATCHED AND s.v = uuid() THEN INSERT *", "t.id = s.id", "WHEN NOT MATCHED"),
        ("WHEN NOT MATCHED BY SOURCE AND rand() < 1 THEN DELETE", "t.id = s.id", "BY SOURCE"),
    ],
)
def test_a_condition_that_changes_its_mind_is_refused_by_its_clause(clauses, on, where):
    with pytest.raises(NotDeterministicError, match=where):
        _analyze(clauses, on)


def test_a_value_may_be_another_for_each_row():
    merge = _analyze("WHEN MATCHED THEN UPDATE SET v = uuid()")
    assert len(merge.clauses[0].assignments) == 1


@pytest.mark.parametrize(
    ("target", "source"),
    [("t", "t AS s"), ("db.t", "db.T AS s"), ("t", "(SELECT * FROM t WHERE id < 3) AS s")],
)
def test_in_a_merge_of_a_table_into_itself_the_target_has_the_name(target, source):
    text = (
        f"MERGE INTO {target} USING {source} ON t.id = s.id WHEN MATCHED AND t.v = 'a' THEN DELETE"
    )
    analyzed = parse_statement(text).analyze(TARGET, TARGET, now_ms=0)
    assert to_sql(analyzed.on) == "`target`.`id` = `source`.`id`"
    assert to_sql(analyzed.clauses[0].condition) == "`target`.`v` = 'a'"


def test_not_matched_by_source_reads_every_row():
    merge = _analyze("WHEN NOT MATCHED BY SOURCE THEN DELETE", "t.id = s.id AND t.v = 'a'")
    assert merge.reads_whole_target
    assert merge.target_condition() == TRUE


def test_an_insert_only_merge_still_reads_the_target():
    merge = _analyze("WHEN NOT MATCHED THEN INSERT *", "t.id = s.id AND t.v = 'a'")
    assert merge.inserts_only
    assert to_sql(merge.target_condition()) == "`v` = 'a'"


def test_stars_are_written_out_by_name():
    update, insert = _analyze(UPSERT).clauses
    assert {path: to_sql(value) for path, value in update.assignments.items()} == {
        ("id",): "`source`.`ID`",
        ("date",): "`source`.`date`",
        ("v",): "`source`.`v`",
    }
    assert insert.assignments == update.assignments


def test_clauses_see_the_sides_they_may():
    merge = _analyze(
        "WHEN MATCHED AND t.v <> s.v THEN UPDATE SET t.v = concat(t.v, s.v) "
        "WHEN NOT MATCHED AND op = 'i' THEN INSERT (id, v) VALUES (id, v) "
        "WHEN NOT MATCHED BY SOURCE AND v = 'x' THEN UPDATE SET v = 'y'"
    )
    conditions = [to_sql(clause.condition) for clause in merge.clauses]
    assert conditions == [
        "`target`.`v` <> `source`.`v`",
        "`source`.`op` = 'i'",
        "`target`.`v` = 'x'",
    ]
    assert to_sql(merge.clauses[1].assignments[("id",)]) == "`source`.`ID`"
    assert len(merge.expressions()) == 8


@pytest.mark.parametrize(
    ("clauses", "on", "error"),
    [
        (UPSERT, "id = s.id", ExpressionError),
        (UPSERT, "t.nope = s.id", UnknownColumnError),
        (UPSERT, "x.id = s.id", UnknownColumnError),
        ("WHEN NOT MATCHED AND t.v = 'a' THEN INSERT *", "t.id = s.id", UnknownColumnError),
        ("WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)", "t.id = s.id", UnknownColumnError),
        ("WHEN NOT MATCHED BY SOURCE AND s.v = 'a' THEN DELETE", "t.id = s.id", UnknownColumnError),
        ("WHEN MATCHED THEN UPDATE SET op = 'a'", "t.id = s.id", UnknownColumnError),
        ("WHEN MATCHED THEN UPDATE SET s.v = 'a'", "t.id = s.id", UnknownColumnError),
        ("WHEN MATCHED THEN UPDATE SET v = 'a', t.v = 'b'", "t.id = s.id", EngineError),
        ("WHEN MATCHED THEN UPDATE SET v = reflect('a', 'b')", "t.id = s.id", ExpressionError),
        (UPSERT, "t.id = (SELECT 1)", ExpressionError),
        (UPSERT, "t.id", ExpressionError),
    ],
)
def test_a_part_that_does_not_fit_is_refused(clauses, on, error):
    with pytest.raises(error):
        _analyze(clauses, on)


def test_a_star_needs_every_column_unless_the_schema_evolves():
    merge = parse_statement(f"MERGE INTO t USING s ON t.id = s.id {UPSERT}")
    narrow = StructType((StructField("id", LONG),))
    with pytest.raises(ExpressionError):
        merge.analyze(TARGET, narrow)
    evolving = parse_statement(
        f"MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id {UPSERT}"
    )
    assert set(evolving.analyze(TARGET, narrow).clauses[0].assignments) == {("id",)}
