"""Nothing outside the allow-list becomes a tree, in any spelling."""

import pytest

from engine.commands.model import Delete, Optimize, Update
from engine.errors import ExpressionError, TableNotFoundError
from engine.expressions.parse import parse_condition, parse_expression
from engine.schema.types import (
    BOOLEAN,
    DATE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from tests.engine.expressions.hostile import HOSTILE, list_accepted

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("date", DATE),
        StructField("ok", BOOLEAN),
        StructField("arr", ArrayType(LONG)),
        StructField("m", MapType(STRING, LONG)),
        StructField("st", StructType((StructField("x", INTEGER),))),
    )
)


def test_there_are_enough_hostile_conditions():
    assert len(set(HOSTILE)) == len(HOSTILE) >= 200


def _refuse_table(name, version):
    what = f"There is no table {name} {version}."
    raise TableNotFoundError(what, "Register it.")


def test_hostile_conditions_are_refused():
    assert list_accepted(HOSTILE, lambda text: parse_condition(text, SCHEMA), ExpressionError) == []


@pytest.mark.parametrize(
    "command_of",
    [Delete, lambda text: Optimize(where=text), lambda text: Update({"ok": "TRUE"}, text)],
    ids=["DELETE", "OPTIMIZE", "UPDATE"],
)
def test_hostile_conditions_are_refused_inside_commands(command_of):
    written = filter(str.strip, HOSTILE)  # no condition at all means every row
    assert list_accepted(written, lambda text: _validate(command_of(text))) == []


def _validate(command: Delete | Optimize | Update) -> None:
    """Validate the expression and look up its subqueries' tables."""
    command.validate(SCHEMA)
    command.condition(SCHEMA, tables=_refuse_table)


@pytest.mark.parametrize(
    "text",
    [
        "id = 1 AND name IN ('a', \"b\")",
        "name = 'it''s; -- /* not */ a comment ${x}'",
        "st.x > 0 OR arr[0] = 1 OR m['k'] = 2 OR element_at(m, 'k') = 2",
        "`id` = 1 AND `st`.`x` = 2",
        "date >= current_date() - INTERVAL 7 DAYS",
        "lpad(name, 1000, 'x') = ''",
        "(" * 60 + "id = 1" + ")" * 60,
        "id IN (" + ", ".join(map(str, range(5000))) + ")",
        "id = 1" + " OR id = 2" * 2000,
    ],
    ids=lambda text: text[:40],
)
def test_common_expressions_are_not_refused(text):
    assert parse_condition(text, SCHEMA)


def test_a_refusal_names_the_position_and_the_remedy():
    with pytest.raises(ExpressionError) as caught:
        parse_condition("id = 1 AND reflect('a', 'b') = ''", SCHEMA)
    assert caught.value.position == 11
    assert "reflect" in str(caught.value)
    assert caught.value.remedy


def test_an_expression_is_held_to_the_same_list():
    with pytest.raises(ExpressionError):
        parse_expression("reflect('java.lang.System', 'getenv', 'PATH')", SCHEMA)
