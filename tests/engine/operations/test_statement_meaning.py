"""Statements follow the settings of the caller's session, even if no row needs Spark."""

from dataclasses import dataclass

import pytest

from engine.commands.column_sql import or_default
from engine.commands.common_tables import change_expressions
from engine.commands.sql import parse_statement
from engine.errors import ExpressionError, RequestError
from engine.expressions.parse import parse_expression
from engine.operations.execution import Execution
from engine.operations.rows.insert import overwrite, read_rows_in_process
from engine.operations.run_options import RunOptions
from engine.operations.write_rows import WriteTerms
from engine.spark.column_trees import StatementText


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a caller's session."""

    zone: str

    @property
    def conf(self):
        """Return the settings."""
        return self

    def get(self, name):
        """Return a setting."""
        return {"spark.sql.session.timeZone": self.zone, "spark.sql.ansi.enabled": "true"}[name]


BERLIN, UTC_WITHOUT_ANSI = SessionSettings("Europe/Berlin"), SessionSettings("UTC")


@pytest.fixture
def execution(do_lightly, empty_table):
    """Build an execution for a caller's session, on a table partitioned by times."""
    do_lightly("CREATE TABLE t (id INT, at TIMESTAMP, d DATE, s STRING) PARTITIONED BY (at, d, s)")

    def build(session):
        return Execution(
            empty_table, None, RunOptions(), caller_session=session, is_own_name="t".__eq__
        )

    return build


def test_default_keeps_its_word_and_the_session_of_its_statement():
    schema = parse_statement("CREATE TABLE t (x STRING DEFAULT 'none')").schema
    given = or_default(StatementText(" default ", BERLIN), schema, ("x",))
    assert isinstance(given, StatementText)
    assert given.text == "'none'"
    assert given.value(schema, schema.fields[0].type) == parse_expression("'none'", schema)


def test_tables_of_replace_on_are_found_in_any_session():
    command = parse_statement(
        "INSERT INTO t REPLACE ON t.id IN (SELECT id FROM other) (SELECT * FROM more) AS s"
    )
    meant = change_expressions(command, lambda text: StatementText(text, BERLIN))
    assert set(meant.tables_read()) == {"other", "more"}


def test_replaced_rows_are_chosen_by_the_session_or_not_at_all(execution):
    """A query evaluated in UTC would remove other rows than the caller's session selects."""
    text = "INSERT INTO t REPLACE ON t.at = TIMESTAMP '2026-01-01 00:00:00' (SELECT * FROM t) AS s"
    with pytest.raises(ExpressionError, match="depends on the session"):
        overwrite(parse_statement(text), execution(BERLIN))


def test_constants_of_partitions_are_no_times_of_another_zone(execution, empty_table):
    terms = WriteTerms.from_snapshot(empty_table.snapshot())

    def read(constants, session):
        statement = f"INSERT INTO t PARTITION ({constants}) (id) VALUES (1)"  # noqa: S608
        return read_rows_in_process(execution(session), parse_statement(statement), terms)

    for constants in (
        "at = '2026-01-01 00:00:00', d, s",
        "at = TIMESTAMP '2026-01-01 00:00:00', d, s",
        "at = DATE '2026-01-01', d, s",
        "at, d = TIMESTAMP '2026-01-01 00:00:00Z', s",
        "at, d, s = TIMESTAMP '2026-01-01 00:00:00Z'",
        "at, d = current_date(), s",
    ):
        with pytest.raises(RequestError, match="depends on the session's time zone"):
            read(constants, BERLIN)
    whole = "at = TIMESTAMP '2026-01-01 00:00:00Z', d = DATE '2026-01-01', s = 'x'"
    assert read(whole, BERLIN) == read(whole, UTC_WITHOUT_ANSI)
    assert read("at = '2026-01-01 00:00:00', d = '2026-01-01', s = 'x'", UTC_WITHOUT_ANSI)
