"""Subqueries: allowed where a command supports them, one table deep, and never used as proof."""

import pytest

from engine.commands.model import Delete, Optimize
from engine.errors import CannotEvaluateError, EngineError, ExpressionError, TableNotFoundError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_condition
from engine.expressions.possible_values import ANY, NULL, possible
from engine.expressions.queries.plan import Query
from engine.expressions.queries.pushdown import conditions_of_scans
from engine.expressions.queries.subqueries import bind_subqueries
from engine.expressions.render import to_sql
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import has_subquery, is_deterministic
from engine.expressions.tree import Column, Subquery, walk
from engine.schema.types import LONG, STRING, StructField, StructType
from tests.engine.expressions.generated import SCHEMA
from tests.engine.expressions.hostile import HOSTILE, list_accepted
from tests.engine.expressions.test_evaluate import TABLE


def columns(tree):
    return [node for node in walk(tree) if isinstance(node, Column)]


OTHER = StructType((StructField("i", LONG), StructField("word", STRING)))


def _tables(name, version=None):
    if name in {"other", "db.other", "/lake/other"} and version in {None, 3}:
        return OTHER
    what = f"There is no table {name}."
    raise TableNotFoundError(what, "Register it.")


SCOPE = Scope((Relation(SCHEMA, "", ("t",)),))


def _tree(text):
    return parse_condition(text, SCOPE, now_ms=0, nested=bind_subqueries(_tables))


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("l IN (SELECT i FROM other)", "`l` IN (SELECT i FROM other)"),
        (
            "NOT EXISTS (SELECT 1 FROM db.other AS o\n WHERE o.i = t.i AND word = s)",
            "NOT EXISTS (SELECT 1 FROM db.other AS o WHERE o.i = t.i AND word = s)",
        ),
        (
            "EXISTS (SELECT * FROM delta.`/lake/other` WHERE i > 1) OR ok",
            "EXISTS (SELECT * FROM delta.`/lake/other` WHERE i > 1) OR `ok`",
        ),
        (
            "l = (SELECT max(i) FROM other VERSION AS OF 3)",
            "`l` = (SELECT max(i) FROM other VERSION AS OF 3)",
        ),
        (
            "l IN (SELECT i FROM other WHERE i IN (SELECT i FROM other GROUP BY i LIMIT 1))",
            "`l` IN (SELECT i FROM other WHERE i IN (SELECT i FROM other GROUP BY i LIMIT 1))",
        ),
        (
            "l IN (WITH a AS (SELECT i FROM other UNION SELECT 1) SELECT DISTINCT i FROM a)",
            "`l` IN (WITH a AS (SELECT i FROM other UNION SELECT 1) SELECT DISTINCT i FROM a)",
        ),
    ],
)
def test_a_subquery_renders_as_the_sql_it_was_parsed_from(text, sql):
    tree = _tree(text)
    assert to_sql(tree) == sql
    assert _tree(sql) == tree


@pytest.mark.parametrize("relation", ["", "t"])
def test_no_file_is_left_out_for_a_column_of_the_rows_around(relation):
    text = "EXISTS (SELECT 1 FROM other o WHERE o.word = t.i AND o.i > 1 AND t.l = 1)"
    scope = Scope((Relation(SCHEMA, relation, ("t",)),))
    tree = parse_condition(text, scope, now_ms=0, nested=bind_subqueries(_tables))
    assert isinstance(tree, Subquery)
    assert isinstance(tree.query, Query)
    sunk = conditions_of_scans(tree.query.plan)
    assert [to_sql(part) for part in sunk.values()] == ["`i` > 1"]


def test_the_reads_of_a_subquery_are_known():
    tree = _tree("l IN (SELECT i FROM other WHERE rand() < 0.5) AND ok")
    assert has_subquery(tree)
    assert {name for node in walk(tree) if isinstance(node, Subquery) for name in node.tables} == {
        "other"
    }
    assert not is_deterministic(tree)


def test_an_outer_column_keeps_its_own_name_and_an_inner_one_gets_the_plans():
    (subquery,) = [
        node
        for node in walk(_tree("EXISTS (SELECT 1 FROM other WHERE i = l)"))
        if isinstance(node, Subquery)
    ]
    names = {column.path[0] for tree in subquery.query.expressions() for column in columns(tree)}
    assert names == {"l", "__lake_q1.i"}


@pytest.mark.parametrize(
    "text",
    [
        "l IN (SELECT i, word FROM other)",
        "l IN (SELECT * FROM other)",
        "l IN (SELECT i)",
        "l IN (SELECT 1)",
        "l IN (SELECT i FROM missing)",
        "l IN (SELECT i FROM other VERSION AS OF 4)",
        "l IN (SELECT i FROM other JOIN other)",
        "l IN (SELECT i FROM other, other)",
        "l IN (SELECT i FROM other WHERE)",
        "l IN (SELECT i FROM other WHERE i)",
        "l IN (SELECT sum(count(*)) FROM other)",
        "l IN (SELECT reflect('a', 'b') FROM other)",
        "l IN (SELECT i FROM other WHERE reflect('a', 'b') = '')",
        "l IN (SELECT nothing FROM other)",
        "l IN (SELECT i FROM other WHERE i IN (SELECT i FROM other WHERE s = 'x'))",
        "l IN (SELECT i FROM text.`/etc/passwd`)",
        "l IN (SELECT i FROM read_files('/etc/passwd'))",
        "EXISTS (SELECT TRANSFORM(i) USING 'cat' FROM other)",
    ],
)
def test_anything_else_of_select_is_refused(text):
    with pytest.raises(EngineError):
        _tree(text)


def test_hostile_conditions_are_refused_where_subqueries_are_allowed():
    assert list_accepted(HOSTILE, _tree) == []


def test_only_commands_that_declare_it_accept_subqueries():
    text = "l IN (SELECT i FROM other)"
    assert has_subquery(Delete(text).condition(SCHEMA, tables=_tables))
    assert has_subquery(Delete(text).condition(SCHEMA))
    with pytest.raises(ExpressionError):
        Optimize(where=text).condition(SCHEMA, tables=_tables)


def test_a_command_names_the_tables_it_reads():
    assert Delete("l IN (SELECT i FROM other, a.b) OR ok").tables_read() == ("other", "a.b")
    assert Delete("l IN (1, 2)").tables_read() == ()


def test_columns_say_no_side_without_a_subquery():
    condition = Delete("l = 1").condition(SCHEMA, tables=_tables)
    assert condition == parse_condition("l = 1", SCHEMA)


def test_a_subquery_rules_out_no_file():
    for text in ("l IN (SELECT i FROM other)", "l NOT IN (SELECT i FROM other)"):
        assert possible(_tree(text), lambda _: NULL) == ANY
    with pytest.raises(CannotEvaluateError):
        evaluate_arrow(_tree("EXISTS (SELECT 1 FROM other)"), TABLE)
