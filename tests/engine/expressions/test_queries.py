# ruff: noqa: S608 - queries are what is tested
"""Queries become plans over known tables, or are refused with the position and the offending name."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, ExpressionError, TableNotFoundError, UnknownColumnError
from engine.expressions.queries.binder import bind_query, read_query_text
from engine.expressions.queries.plan import Join, steps
from engine.expressions.queries.pushdown import conditions_of_scans
from engine.expressions.queries.tables import tables_in_query
from engine.expressions.render import to_sql
from engine.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    DecimalType,
    StructField,
    StructType,
)
from tests.engine.spark.queries import QUERIES

A = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("amount", DecimalType(10, 2)),
        StructField("pl", StructType((StructField("day", DATE), StructField("x", INTEGER)))),
    )
)
B = StructType((StructField("id", LONG), StructField("city", STRING), StructField("ok", BOOLEAN)))
TABLES = {"a": A, "b": B, "db.b": B, "/lake/b": B}


def tables(name, version):
    if name not in TABLES or version not in {None, 7, "2026-01-02 03:04:05"}:
        what = f"There is no table {name}."
        raise TableNotFoundError(what, "Register it.")
    return TABLES[name]


def bind(text):
    return bind_query(text, tables, now_ms=0)


def shape(query):
    return [type(step).__name__ for step in steps(query.plan)]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM a", [("id", LONG), ("name", STRING), ("amount", DecimalType(10, 2)), ("pl", A.get("pl").type)]),
        ("SELECT x.id AS n, pl.day FROM a x", [("n", LONG), ("day", DATE)]),
        ("SELECT count(*) c, sum(amount) s, avg(id) FROM a", [("c", LONG), ("s", DecimalType(20, 2)), ("avg(id)", DOUBLE)]),
        ("SELECT * EXCEPT (pl, name) FROM a", [("id", LONG), ("amount", DecimalType(10, 2))]),
        ("SELECT b.* FROM a JOIN db.b ON a.id = b.id", [("id", LONG), ("city", STRING), ("ok", BOOLEAN)]),
        ("SELECT * FROM b LEFT JOIN delta.`/lake/b` c USING (id)",
         [("id", LONG), ("city", STRING), ("ok", BOOLEAN), ("city", STRING), ("ok", BOOLEAN)]),
        ("SELECT id FROM b UNION SELECT 2.5", [("id", DecimalType(21, 1))]),
        ("VALUES (1, 'x'), (NULL, 'y')", [("col1", INTEGER), ("col2", STRING)]),
        ("SELECT * FROM (VALUES (1L), (NULL)) AS v(n) JOIN b ON b.id = n", [("n", LONG), ("id", LONG), ("city", STRING), ("ok", BOOLEAN)]),
        ("SELECT n FROM VALUES (1) AS v(n)", [("n", INTEGER)]),
        ("SELECT timestamp.id FROM b TIMESTAMP AS OF '2026-01-02 03:04:05' AS timestamp", [("id", LONG)]),
        ("WITH c(n) AS (SELECT id FROM b VERSION AS OF 7) SELECT n + 1 AS m FROM c", [("m", LONG)]),
    ],
)  # fmt: skip
def test_columns_of_a_result_have_names_and_types(text, columns):
    assert [(name, column.type) for name, column in bind(text).columns] == columns


def test_clauses_become_steps_in_sqls_order():
    text = (
        "SELECT id, row_number() OVER (ORDER BY count(*)) AS rn FROM a WHERE name > 'x' GROUP BY id "
        "HAVING count(*) > 1 QUALIFY rn = 1 ORDER BY id LIMIT 3"
    )
    assert shape(bind(text)) == [
        "LimitRows", "Sort", "Project", "Filter", "Windows", "Filter", "Aggregate", "Filter", "Scan",
    ]  # fmt: skip


def test_two_readings_of_one_table_share_no_column():
    query = bind("SELECT x.id, y.id FROM a x JOIN a y ON x.id = y.id")
    (join,) = [step for step in steps(query.plan) if isinstance(step, Join)]
    assert to_sql(join.on) == "`__lake_q1.id` = `__lake_q2.id`"


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ("SELECT nothing FROM a", 7, "no column nothing"),
        ("SELECT id FROM b TIMESTAMP AS OF 'soon'", 33, "a time was expected"),
        ("SELECT id FROM b TIMESTAMP AS OF id", 33, "a time was expected"),
        ("SELECT id FROM a JOIN b ON a.id = b.id", 7, "ambiguous: it is in a, b"),
        ("SELECT id FROM a, a", 18, "Two tables are called a"),
        ("SELECT id, name FROM a GROUP BY id", 0, "column name is neither"),
        ("SELECT id FROM a WHERE sum(id) > 1", 23, "in WHERE"),
        ("SELECT sum(count(*)) FROM a", 7, "contains an aggregate"),
        ("SELECT row_number() OVER () FROM a", 7, "ORDER BY in its window"),
        ("SELECT rank() FROM a", 13, "needs OVER"),
        ("SELECT sum((SELECT max(id) FROM b)) FROM a", 7, "contains a subquery"),
        ("SELECT sum(name) FROM a", 7, "takes a number"),
        ("SELECT id FROM a WHERE name", 23, "neither true nor false"),
        ("SELECT * FROM (SELECT id, 1 AS ID FROM a)", 14, "two columns called"),
        ("SELECT id FROM a UNION SELECT id, city FROM b", 17, "1 and 2 columns"),
        ("SELECT pl FROM a UNION SELECT id FROM b", 17, "cannot be combined"),
        ("SELECT DISTINCT id FROM a ORDER BY name", 0, "DISTINCT can only use"),
        ("SELECT id FROM a ORDER BY 2", 26, "no column 2"),
        ("SELECT id FROM a GROUP BY sum(id)", 26, "in GROUP BY"),
        ("SELECT id FROM a WHERE id IN (SELECT id, ok FROM b)", 30, "2 columns"),
        ("SELECT id FROM a LIMIT 5 5", 25, "was expected"),
        ("SELECT id FROM a JOIN b", 23, "ON or USING"),
        ("SELECT id FROM a NATURAL JOIN b", 17, "not supported"),
        ("SELECT id FROM range(5)", 15, "cannot be read as a table"),
        ("SELECT id FROM a x WHERE EXISTS (SELECT 1 FROM b WHERE b.id = x.id AND EXISTS "
         "(SELECT 1 FROM b c WHERE c.city = x.name))", 112, "two levels"),
        ("SELECT id FROM (SELECT id FROM a WHERE name = city) JOIN b USING (id)", 46, "no column city"),
    ],
)  # fmt: skip
def test_faults_are_named_with_their_place(text, position, why):
    with pytest.raises(ExpressionError, match=why) as caught:
        bind(text)
    assert caught.value.position == position


def test_unknown_tables_are_named_and_suggestions_made():
    with pytest.raises(TableNotFoundError, match="no table missing"):
        bind("SELECT 1 FROM a JOIN missing m ON TRUE")
    with pytest.raises(UnknownColumnError, match="Did you mean amount"):
        bind("SELECT amoun FROM a")


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT reflect('java.lang.System', 'exit', 0) FROM a",
        "SELECT java_method('a', 'b') FROM a",
        "SELECT builtin.reflect('a', 'b') FROM a",
        "SELECT TRANSFORM(id) USING 'cat' FROM a",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM csv.`/etc/passwd` JOIN a",
        "SELECT * FROM a WHERE id IN (SELECT value FROM text.`/etc/passwd`)",
        "SELECT * FROM read_files('/etc/passwd')",
        "SELECT explode(array(1)) FROM a",
        "SELECT * FROM a LATERAL VIEW explode(name) t AS x",
        "SELECT * FROM a TABLESAMPLE (10 PERCENT)",
        "SELECT * FROM a PIVOT (sum(id) FOR name IN ('x'))",
        "SELECT /*+ BROADCAST(a) */ * FROM a; DROP TABLE a",
        "SELECT * FROM IDENTIFIER('a')",
        "SELECT ${x} FROM a",
        "SELECT :x FROM a",
        "WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r",
        "WITH r AS (SELECT * FROM r) SELECT * FROM r",
        "FROM a SELECT id",
        "INSERT INTO a SELECT 1",
        "SELECT * FROM (INSERT INTO a VALUES (1))",
        "SELECT 1 FROM a" + " JOIN b USING (id)" * 70,
        "SELECT * FROM " + "(SELECT * FROM " * 30 + "a" + ")" * 30,
        "WITH " + ", ".join(
            f"c{n} AS (SELECT x.id FROM {f'c{n - 1}' if n else 'a'} x "
            f"JOIN {f'c{n - 1}' if n else 'a'} y ON x.id = y.id)" for n in range(30)
        ) + " SELECT * FROM c29",
        "SELECT " + "(" * 200 + "1" + ")" * 200 + " FROM a",
        "",
        "SELECT",
        "SELECT FROM a",
        "SELECT id AS FROM a",
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_hostile_queries_are_refused(text):
    with pytest.raises(EngineError):
        bind(text)


@pytest.mark.parametrize(
    ("text", "sunk"),
    [
        ("SELECT * FROM a WHERE id = 1 AND rand() < 1", ["`id` = 1"]),
        ("SELECT * FROM (SELECT id AS n FROM a WHERE name = 'x') WHERE n > 2", ["(`id` > 2) AND (`name` = 'x')"]),
        ("SELECT a.id FROM a JOIN b ON a.id = b.id AND b.ok WHERE a.pl.x = 1 AND b.city = 'y'",
         ["`pl`.`x` = 1", "(`city` = 'y') AND `ok`"]),
        ("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.ok AND a.name = 'z' WHERE b.city IS NULL AND a.id = 1",
         ["`id` = 1", "`ok`"]),
        ("SELECT a.id FROM a LEFT ANTI JOIN b ON a.id = b.id AND a.name = 'z' AND b.ok", ["`ok`"]),
        ("SELECT a.id FROM a FULL JOIN b ON a.id = b.id AND b.ok WHERE a.id = 1", []),
        ("SELECT id, count(*) FROM a GROUP BY id HAVING id = 1", []),
        ("SELECT * FROM (SELECT * FROM a LIMIT 5) WHERE id = 1", []),
        ("SELECT id FROM a WHERE id IN (SELECT id FROM b)", []),
        ("SELECT id FROM a QUALIFY row_number() OVER (ORDER BY id) = 1 AND id = 3", []),
    ],
)  # fmt: skip
def test_conditions_sink_only_where_no_result_can_change(text, sunk):
    assert [
        to_sql(condition) for condition in conditions_of_scans(bind(text).plan).values()
    ] == sunk


def test_tables_are_known_without_their_schemas():
    text = (
        "WITH c AS (SELECT * FROM one) SELECT (SELECT max(x) FROM two) FROM c JOIN (SELECT * FROM three) t "
        "ON c.x IN (SELECT x FROM four) WHERE EXISTS (SELECT 1 FROM c, one, delta.`/five`) "
        "UNION SELECT 1 FROM six ORDER BY (SELECT 1 FROM seven)"
    )
    names = tables_in_query(read_query_text(text))
    assert set(names) == {"one", "two", "three", "four", "/five", "six", "seven"}


def test_a_common_table_hides_a_table_of_its_name_after_itself_alone():
    text = "WITH b AS (SELECT * FROM b) SELECT * FROM b"
    assert tables_in_query(read_query_text(text)) == ("b",)
    assert [scan.table for scan in bind(text).scans()] == ["b"]


@settings(derandomize=True)
@given(st.data())
def test_a_damaged_query_is_refused_in_the_engines_words(data):
    text = data.draw(st.sampled_from(QUERIES))
    start = data.draw(st.integers(0, len(text)))
    junk = data.draw(
        st.sampled_from(["", "(", ")", ",", " FROM ", "'", "`", " AS ", "*", ";", " OVER ", "."])
    )
    damaged = text[:start] + junk + text[data.draw(st.integers(start, len(text))) :]
    with suppress(EngineError):
        tables_in_query(read_query_text(damaged))
        assert bind_query(damaged, tables, now_ms=0).columns
