"""Hostile and broken statements: refused quickly, with a position and a way out."""

import pytest

from engine.commands.sources import QuerySource, TableSource
from engine.commands.sql import parse_statement
from engine.errors import EngineError, RequestError
from engine.expressions.queries.binder import bind_query
from engine.schema.types import LONG, STRING, StructField, StructType
from tests.engine.commands.hostile_statements import break_statements, hostile

pytestmark = pytest.mark.timeout(30)  # a parser that never ends must fail
HOSTILE = hostile()


SCHEMA = StructType((StructField("a", LONG), StructField("p", LONG), StructField("b", STRING)))


def _tables(_name, _version):
    return SCHEMA


def _refusal(text: str) -> EngineError | None:
    """Return the error that the SQL editor and REST report for a statement on a table with these columns."""
    try:
        command = parse_statement(text)
        command.validate(SCHEMA)
        command.condition(SCHEMA, tables=_tables)
        if isinstance(source := getattr(command, "source", None), QuerySource | TableSource):
            bind_query(source.sql(), _tables)
    except EngineError as error:
        return error
    return None


def test_there_are_at_least_200_hostile_statements():
    assert len(set(HOSTILE)) == len(HOSTILE) >= 200


def test_a_hostile_statement_is_refused_with_its_place_and_a_way_out():
    for text in HOSTILE:
        error = _refusal(text)
        assert isinstance(error, RequestError), text
        assert error.remedy, text
        position = getattr(error, "position", None)
        assert error.field if position is None else 0 <= position <= len(text), text
        assert len(str(error)) < 2000, text


def test_a_good_statement_broken_anywhere_is_refused_the_same_way_or_another_good_one():
    refusals = [
        (text, error) for text in break_statements() if (error := _refusal(text)) is not None
    ]
    assert len(refusals) > 1000
    for text, error in refusals:
        assert isinstance(error, RequestError), text
        assert error.remedy, text
        placed = getattr(error, "position", None)
        assert error.field or placed is not None, text
