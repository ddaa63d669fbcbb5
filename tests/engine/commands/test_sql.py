"""Statements become commands, and commands render the same statements."""

import pytest

from engine.commands.model import COMMANDS, Command
from engine.commands.sql import parse_request, parse_statement
from engine.errors import ExpressionError, RequestError, StatementError
from engine.operations.run import run
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.commands.statements import REFUSED, TRANSACTIONS, UNDERSTOOD

EMPTY_TABLE = DeltaTable(open_store("memory://statements"))
SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    UNDERSTOOD,
    ids=[f"{n}-{row[0][:40]}" for n, row in enumerate(UNDERSTOOD)],
)
def test_a_statement_and_its_command_say_the_same(text, kind, said):
    command = parse_statement(text)
    assert command.kind == kind
    assert parse_statement(command.statement()) == command
    assert Command.from_parameters(kind, command.parameters()) == command
    if said is not None:
        assert command.statement() == said


def test_every_kind_has_a_statement():
    assert {kind for _, kind, _ in UNDERSTOOD} == set(COMMANDS)


@pytest.mark.parametrize("sql", TRANSACTIONS)
def test_a_statement_that_opens_or_ends_a_transaction_names_the_block(sql):
    with pytest.raises(StatementError, match="one block, BEGIN ATOMIC"):
        run(sql, EMPTY_TABLE)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("text", "position", "why"),
    REFUSED,
    ids=[f"{n}-{row[0][:40]}" for n, row in enumerate(REFUSED)],
)
def test_anything_else_is_refused_with_the_reason(text, position, why):
    with pytest.raises(RequestError) as caught:
        parse_statement(text)
    assert why in str(caught.value)
    assert caught.value.remedy
    if position is not None:
        assert isinstance(caught.value, StatementError)
        assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "dry"),
    [
        ("VACUUM t DRY RUN", True),
        ("VACUUM t RETAIN 5 HOURS DRY RUN;", True),
        ("OPTIMIZE t WHERE a = 1 DRY RUN", True),
        ("DELETE FROM t WHERE dry = 1", False),
        ("DELETE FROM t AS x WHERE x.a = 1 DRY RUN", True),
        ("INSERT INTO t SELECT * FROM s DRY RUN", True),
        ("DELETE FROM t", False),
    ],
)
def test_dry_run_stands_beside_the_command(text, dry):
    command, dry_run = parse_request(text)
    assert dry_run is dry
    assert "DRY" not in command.statement()


def test_a_command_alone_is_not_read_from_a_statement_that_ends_in_dry_run():
    with pytest.raises(StatementError, match="cannot contain DRY RUN") as caught:
        parse_statement("VACUUM t DRY RUN")
    assert caught.value.position == 9


def test_comments_in_a_statement_are_nothing():
    text = "DELETE /* all? */ FROM t -- the table\nWHERE id = 1 /* AND FALSE */ AND name = '-- not'"
    command = parse_statement(text)
    assert command.condition(SCHEMA) is not None
    assert command == parse_statement(command.statement())


def test_keywords_are_names_in_backticks():
    command = parse_statement("DELETE FROM `where` WHERE `id` = 1")
    assert command.table == "where"


def test_a_condition_is_checked_when_the_schema_is_known():
    command = parse_statement("DELETE FROM t WHERE nowhere = 1")
    with pytest.raises(ExpressionError):
        command.validate(SCHEMA)


def test_the_tables_name_and_alias_may_stand_before_columns():
    for text in (
        "DELETE FROM db.t WHERE t.id = 1",
        "DELETE FROM db.t AS x WHERE x.id = 1",
        "UPDATE t AS x SET x.name = x.name WHERE id = 1",
    ):
        parse_statement(text).validate(SCHEMA)
    with pytest.raises(ExpressionError):
        parse_statement("DELETE FROM t AS x WHERE y.id = 1").validate(SCHEMA)


def test_the_tables_that_values_read_are_named():
    update = parse_statement(
        "UPDATE t SET id = (SELECT max(x) FROM secret) WHERE id IN (SELECT z FROM o)"
    )
    assert update.tables_read() == ("o", "secret")
    merge = parse_statement(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = (SELECT y FROM a) "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES ((SELECT max(x) FROM b))"
    )
    assert merge.tables_read() == ("s", "a", "b")


def test_a_name_with_hyphens_must_be_in_backticks():
    for text, name in (
        ("ALTER TABLE table-name SET TBLPROPERTIES ('a' = 'b')", "table-name"),
        ("DELETE FROM a.my-table-2 WHERE x = 1", "a.my-table-2"),
    ):
        with pytest.raises(StatementError) as refused:
            parse_statement(text)
        assert f"Use backticks: `{name}`." in str(refused.value)
    assert parse_statement("DELETE FROM `table-name` WHERE x = 1 -1").table == "table-name"
