"""Values that only a Python program can pass to a command: DataFrames and columns never become JSON."""

import pytest

from engine.commands.model import (
    Append,
    Command,
    DataFrameSource,
    Delete,
    Merge,
    MergeClause,
    Overwrite,
    Update,
)
from engine.commands.sources import source_from_json
from engine.errors import ExpressionError, RequestError
from engine.expressions.parse import GivenExpression
from engine.expressions.render import to_sql
from engine.expressions.tree import TRUE, Literal, SparkExpression
from engine.schema.types import BOOLEAN, LONG, STRING, StructField, StructType

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
OWN = SparkExpression("__own", "my_udf(name)", BOOLEAN)


class Given(GivenExpression):
    """A condition that only a program can pass."""

    def __init__(self, tree=OWN):
        self._tree = tree

    @property
    def text(self):
        return to_sql(self._tree)

    def tree(self, scope, *, now_ms=None, nested=None):  # noqa: ARG002
        return self._tree


FRAME = DataFrameSource(object())
COMMANDS = [
    Delete(where=Given()),
    Update(assignments={"name": Given()}),
    Append(source=FRAME),
    Overwrite(source=FRAME),
    Overwrite(source=FRAME, replace_where=Given()),
    Merge(source=FRAME, on="true", clauses=(MergeClause("matched", "delete"),)),
    Merge(source=FRAME, on=Given(), clauses=(MergeClause("matched", "delete", Given()),)),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.statement())
def test_no_command_that_holds_a_programs_own_has_json(command):
    with pytest.raises(RequestError, match="program"):
        command.parameters()


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("delete", {"where": Given()}),
        ("update", {"assignments": {"name": Given()}}),
        ("append", {"source": FRAME}),
        ("append", {"source": {"kind": "data_frame"}}),
        ("merge", {"source": FRAME, "on": "true", "clauses": []}),
    ],
)
def test_no_request_makes_a_given_condition(kind, parameters):
    with pytest.raises(RequestError):
        Command.from_parameters(kind, parameters)
    with pytest.raises(RequestError):
        source_from_json(FRAME)


def test_expressions_of_a_program_are_read_as_trees():
    assert Delete(where=Given()).condition(SCHEMA) is OWN
    assert Delete(where=Given()).statement() == "DELETE FROM t WHERE my_udf(name)"
    assert Update(assignments={"ID": Given(TRUE)}).parse_assignments(SCHEMA) == {("id",): TRUE}
    with pytest.raises(ExpressionError, match="true or false"):
        Delete(where=Given(Literal("x", STRING))).condition(SCHEMA)
