"""Refusal of functions that are on no list, in every position and spelling."""

import pytest

from engine.commands.command import Command
from engine.commands.sql import parse_statement
from engine.errors import ExpressionError
from engine.expressions.functions import ALIASES, FOLDED, FUNCTIONS
from engine.expressions.queries.functions import AGGREGATES, WINDOW_FUNCTIONS
from engine.expressions.queries.reader import check_calls

SPELLINGS = [
    "reflect('a', 'b')",
    "REFLECT('a', 'b')",
    "rEfLeCt\t\n('a', 'b')",
    "reflect/* x */('a', 'b')",
    "reflect -- x\n ('a', 'b')",
    "`reflect`('a', 'b')",
    "`reflect` ('a', 'b')",
    "`REFLECT`('a', 'b')",
    "builtin.reflect('a', 'b')",
    "`builtin`.`reflect`('a', 'b')",
    "`builtin.reflect`('a', 'b')",
    "system . builtin . reflect ('a', 'b')",
    "system.builtin.`reflect`('a', 'b')",
    "\"reflect\"('a', 'b')",
    "'reflect'('a', 'b')",
    "identifier('reflect')('a', 'b')",
    "lower(`reflect`('a', 'b'))",
    "(`reflect`('a', 'b'))",
    "CAST(`reflect`('a', 'b') AS STRING)",
    "CASE WHEN (id = 1) THEN `reflect`('a', 'b') END",
    "arr[0]('a')",
    "`lower`('a')",
    "builtin.lower('a')",
    "explode(id)",
    "(SELECT `reflect`('a', 'b'))",
    "(SELECT max(x) FROM s AS y(x) WHERE `reflect`('a', 'b') = '')",
    "(WITH c(x) AS (SELECT `reflect`('a', 'b')) SELECT x FROM c)",
]
STATEMENTS = [
    "INSERT INTO t SELECT {} FROM s",
    "INSERT INTO t SELECT {} AS x, id FROM s",
    "INSERT INTO t SELECT id FROM s WHERE {} = ''",
    "INSERT INTO t SELECT id FROM s JOIN u ON {} = ''",
    "INSERT INTO t SELECT id FROM s GROUP BY id, {}",
    "INSERT INTO t SELECT id FROM s GROUP BY id HAVING {} = ''",
    "INSERT INTO t SELECT id FROM s QUALIFY {} = ''",
    "INSERT INTO t SELECT id FROM s ORDER BY id, {} DESC",
    "INSERT INTO t SELECT sum(id) FILTER (WHERE {} = '') FROM s",
    "INSERT INTO t SELECT sum(id) OVER (PARTITION BY ({}) ORDER BY id) FROM s",
    "INSERT INTO t SELECT id FROM (SELECT {} AS id FROM s) AS y(id)",
    "INSERT INTO t SELECT id FROM s UNION ALL SELECT {}",
    "INSERT INTO t SELECT id FROM (VALUES (1, {})) AS y(id, b)",
    "INSERT INTO t SELECT id FROM s WHERE id IN (SELECT {} FROM u)",
    "INSERT INTO t VALUES (1, {})",
    "INSERT INTO t REPLACE WHERE {} = '' SELECT * FROM s",
    "CREATE TABLE t AS SELECT {} AS x FROM s",
    "CREATE TABLE t (id BIGINT DEFAULT {})",
    "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS ({}))",
    "CREATE TABLE t (id BIGINT, CONSTRAINT c CHECK ({} = ''))",
    "DELETE FROM t WHERE {} = ''",
    "UPDATE t SET name = {} WHERE id = 1",
    "MERGE INTO t USING (SELECT {} AS id FROM s) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING s ON {} = '' WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND {} = '' THEN DELETE",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = {}",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES ({})",
    "OPTIMIZE t WHERE {} = ''",
    "ALTER TABLE t ADD COLUMN b STRING DEFAULT {}",
    "ALTER TABLE t ALTER COLUMN b SET DEFAULT {}",
    "ALTER TABLE t ADD CONSTRAINT c CHECK ({} = '')",
    "DELETE FROM t WHERE id = 1; UPDATE t SET name = {}",
]
TABLE = {"kind": "table", "table": "s"}
MERGE = {"source": TABLE, "on": "t.id = s.id"}
FIELD = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
SCHEMA = {"type": "struct", "fields": [FIELD]}
SETS = {"when": "matched", "action": "update", "assignments": {"id": "{}"}}
DELETES_SOME = {"when": "matched", "action": "delete", "condition": "{}"}
DELETES = {"when": "matched", "action": "delete"}
PARAMETERS = [
    ("append", "source.columns", {"source": TABLE | {"columns": ["{} AS id"]}}),
    ("append", "source.where", {"source": TABLE | {"where": "{} = ''"}}),
    ("append", "source.rows", {"source": {"kind": "rows", "rows": [[1, "{}"]]}}),
    ("append", "", {"source": {"kind": "query", "query": "SELECT {} FROM s"}}),
    ("overwrite", "replace_where", {"source": TABLE, "replace_where": "{}"}),
    ("create", "source.where", {"source": TABLE | {"where": "{}"}}),
    ("create", "schema", {"schema": {"type": "struct", "fields": [
        FIELD | {"metadata": {"delta.generationExpression": "{}"}}]}}),
    ("create", "schema", {"schema": {"type": "struct", "fields": [
        FIELD | {"metadata": {"CURRENT_DEFAULT": "{}"}}]}}),
    ("create", "", {"schema": SCHEMA, "properties": {"delta.constraints.c": "{}"}}),
    ("set_properties", "", {"properties": {"delta.constraints.c": "{}"}}),
    ("alter_add_columns", "columns", {"columns": {"type": "struct", "fields": [
        FIELD | {"metadata": {"CURRENT_DEFAULT": "{}"}}]}}),
    ("alter_change_column", "new_default", {"column": "id", "new_default": "{}"}),
    ("alter_add_constraint", "check", {"name": "c", "check": "{}"}),
    ("delete", "where", {"where": "{}"}),
    ("update", "where", {"assignments": {"id": "1"}, "where": "{}"}),
    ("update", "assignments", {"assignments": {"id": "{}"}}),
    ("optimize", "where", {"where": "{}"}),
    ("merge", "on", MERGE | {"on": "{}", "clauses": [DELETES]}),
    ("merge", "clauses", MERGE | {"clauses": [DELETES_SOME]}),
    ("merge", "clauses", MERGE | {"clauses": [SETS]}),
    ("script", "steps", {"steps": [{"kind": "delete", "parameters": {"where": "{}"}}]}),
]  # fmt: skip


def fill_in_call(value, call):
    """Return the JSON with the call in place of its braces."""
    match value:
        case dict():
            return {key: fill_in_call(inner, call) for key, inner in value.items()}
        case list():
            return [fill_in_call(inner, call) for inner in value]
        case str():
            return value.replace("{}", call)
        case _:
            return value


@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_unlisted_function_is_refused_in_every_part_of_a_statement(statement):
    for spelling in SPELLINGS:
        text = statement.replace("{}", spelling)
        with pytest.raises(ExpressionError) as caught:
            parse_statement(text)
        assert statement.index("{}") <= caught.value.position < text.index(spelling) + len(spelling)
        assert caught.value.remedy


@pytest.mark.parametrize(
    ("kind", "field", "parameters"),
    PARAMETERS,
    ids=[f"{n}-{kind}-{field}" for n, (kind, field, _) in enumerate(PARAMETERS)],
)
def test_an_unlisted_function_is_refused_in_every_parameter(kind, field, parameters):
    for spelling in SPELLINGS:
        with pytest.raises(ExpressionError) as caught:
            Command.from_parameters(kind, fill_in_call(parameters, spelling))
        assert caught.value.field.startswith(field)


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name}(a, (b))" for name in (*FUNCTIONS, *ALIASES, *FOLDED)),
        *(f"{name.upper()} (a) OVER (PARTITION BY (b))" for name in WINDOW_FUNCTIONS),
        *(f"{name}(DISTINCT (a)) FILTER (WHERE (b))" for name in AGGREGATES),
        "(a) AND (b) OR NOT (c) IN (1) AND a BETWEEN (1) AND (2) AND b LIKE ('x') AND c DIV (2) = 1",
        "CASE (a) WHEN (1) THEN (2) ELSE (3) END IS DISTINCT FROM (b)",
        "CAST(a AS DECIMAL(3, 1)) = try_cast((b) AS NUMERIC (2)) AND c::DECIMAL(4,2) > 0",
        "`date`.`left` = `reflect` AND m['reflect('] = 'reflect(a)' AND reflect.a = 1",
        "EXISTS (SELECT y.a FROM (SELECT 1) AS y(a) JOIN u USING (a)) AND -(1) = +(2)",
        "a IN (WITH reflect(b) AS (SELECT 1) SELECT b FROM reflect)",
    ],
)
def test_listed_functions_may_be_called(text):
    check_calls(text)
    with pytest.raises(ExpressionError, match="reflect"):
        check_calls(f"({text}) OR reflect('a', 'b')")
