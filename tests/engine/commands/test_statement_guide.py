"""docs/sql.md shows statements that parse, and lists every function."""

import re
from pathlib import Path

import pytest

from engine.commands.guide import fill_guide
from engine.commands.sql import parse_request, parse_statement
from engine.errors import ExpressionError
from engine.expressions.functions import ALIASES, FOLDED, FUNCTIONS
from engine.expressions.parse import parse_condition
from engine.expressions.queries.functions import AGGREGATES, WINDOW_FUNCTIONS
from engine.schema.types import STRING, StructField, StructType

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "sql.md").read_text("utf-8")


def test_every_statement_in_the_guide_is_understood():
    blocks = re.findall(r"```sql\n(.*?)\n```", GUIDE, re.DOTALL)
    statements = [part for block in blocks for part in block.split(";\n")]
    assert len(statements) > 30
    for statement in statements:
        assert parse_statement(statement).statement()
        assert parse_request(f"{statement} DRY RUN")[1]


def test_the_guide_is_as_grammar_and_tables_have_it():
    assert fill_guide(GUIDE) == GUIDE, "run python -m engine.commands.guide"
    for part in ("grammar", "functions", "spark_alone", "other_names", "reserved", "refused"):
        assert f"<!-- from the grammar: {part} -->" in GUIDE


def test_the_guide_names_every_function_and_no_other():
    functions = re.search(r"grammar: functions -->\n(.*?)<!-- end", GUIDE, re.DOTALL)[1]
    listed = re.findall(r"^- \*\*.*", functions, re.MULTILINE)
    named = {name for line in listed for name in re.findall(r"`(\w+)`", line)}
    assert named == {*FUNCTIONS, *FOLDED, *AGGREGATES, *WINDOW_FUNCTIONS}
    assert all(f"`{alias}` for" in GUIDE for alias in ALIASES)


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        ("uper(b) = 'X'", "Did you mean upper"),
        ("my_udf(b) = 'X'", "docs/sql.md lists the functions"),
    ],
)
def test_an_unknown_function_suggests_known_ones(condition, remedy):
    with pytest.raises(ExpressionError, match="is not allowed") as caught:
        parse_condition(condition, StructType((StructField("b", STRING),)))
    assert caught.value.remedy.startswith(remedy)
