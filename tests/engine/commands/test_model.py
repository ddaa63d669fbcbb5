"""Commands as values: converted from and to JSON, and refused by field."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.commands.model import COMMANDS, SOURCES, Command, Delete, FileSource, parameters_of
from engine.commands.sql import parse_statement
from engine.errors import EngineError, RequestError
from engine.schema.types import LONG, STRING, StructField, StructType
from tests.engine.commands.statements import UNDERSTOOD

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
FILES = {"kind": "files", "uri": "/data/x.csv", "format": "csv"}


@pytest.mark.parametrize("text", [row[0] for row in UNDERSTOOD], ids=lambda text: text[:60])
def test_parameters_are_json_and_give_the_command_back(text):
    command = parse_statement(text)
    carried = json.loads(json.dumps(command.parameters()))
    assert Command.from_parameters(command.kind, carried) == command


_KINDS = {
    "text",
    "condition",
    "expression",
    "expressions",
    "assignments",
    "columns",
    "integer",
    "number",
    "boolean",
    "choice",
    "mapping",
    "texts",
    "schema",
    "timestamp",
    "source",
    "clauses",
    "steps",
    "rows",
}


@pytest.mark.parametrize("kind", list(COMMANDS))
def test_every_command_describes_its_form(kind):
    model = COMMANDS[kind]
    assert model.label
    assert model.help
    for parameter in model.list_parameters():
        assert parameter.label
        assert parameter.kind in _KINDS
        assert parameter.json_type
        assert not (parameter.required and parameter.default is not None)
        assert bool(parameter.choices) == (parameter.kind == "choice")


def test_every_source_describes_its_form():
    for model in SOURCES.values():
        assert all(
            parameter.label and parameter.kind in _KINDS for parameter in parameters_of(model)
        )


_BAD = [
    ("nothing", {}, "kind"),
    (None, {}, "kind"),
    (["optimize"], {}, "kind"),
    ("optimize", [], "parameters"),
    ("optimize", None, "parameters"),
    ("optimize", {"nope": 1}, "nope"),
    ("optimize", {"full": "perhaps"}, "full"),
    ("optimize", {"zorder_by": 5}, "zorder_by"),
    ("optimize", {"zorder_by": [5]}, "zorder_by"),
    ("optimize", {"zorder_by": ["a", "A"]}, "zorder_by"),
    ("optimize", {"target_size_bytes": 0}, "target_size_bytes"),
    ("optimize", {"target_size_bytes": True}, "target_size_bytes"),
    ("optimize", {"target_size_bytes": 2**70}, "target_size_bytes"),
    ("optimize", {"where": {"a": 1}}, "where"),
    ("optimize", {"where": "a\0b"}, "where"),
    ("optimize", {"where": "x" * 70_000}, "where"),
    ("vacuum", {"retention_hours": -1}, "retention_hours"),
    ("vacuum", {"retention_hours": "nan"}, "retention_hours"),
    ("vacuum", {"retention_hours": "x"}, "retention_hours"),
    ("vacuum", {"retention_hours": 1e300}, "retention_hours"),
    ("restore", {}, "version"),
    ("restore", {"version": 1, "timestamp": "2026-01-01"}, "version"),
    ("restore", {"version": -1}, "version"),
    ("restore", {"timestamp": "soon"}, "timestamp"),
    ("append", {}, "source"),
    ("append", {"source": 5}, "source"),
    ("append", {"source": {}}, "source.kind"),
    ("append", {"source": {"kind": "nope"}}, "source.kind"),
    ("append", {"source": {"kind": ["files"]}}, "source.kind"),
    ("append", {"source": {"kind": "files"}}, "source.uri"),
    ("append", {"source": {**FILES, "format": "xml"}}, "source.format"),
    ("append", {"source": {**FILES, "delimiter": ";;"}}, "source.delimiter"),
    ("append", {"source": {**FILES, "bad_rows": "ignore"}}, "source.bad_rows"),
    ("append", {"source": {**FILES, "evil": 1}}, "source.evil"),
    ("append", {"source": {"kind": "rows", "rows": []}}, "source.rows"),
    ("append", {"source": {"kind": "rows", "rows": 5}}, "source.rows"),
    ("append", {"source": {"kind": "rows", "rows": [[{}]]}}, "source.rows"),
    ("append", {"source": {"kind": "rows", "rows": [[1], [1, 2]]}}, "source.rows"),
    (
        "append",
        {"source": {"kind": "rows", "columns": ["a", "a"], "rows": [[1, 2]]}},
        "source.columns",
    ),
    ("append", {"source": {"kind": "rows", "rows": [[1]] * 10_001}}, "source.rows"),
    ("append", {"source": {"kind": "table", "table": ""}}, "source.table"),
    (
        "overwrite",
        {"source": FILES, "replace_where": "a = 1", "overwrite_schema": True},
        "replace_where",
    ),
    ("update", {"assignments": {}}, "assignments"),
    ("update", {"assignments": {"a": "1", "A": "2"}}, "assignments"),
    ("update", {"assignments": ["a"]}, "assignments"),
    ("update", {"assignments": {"a": []}}, "assignments"),
    ("create", {}, "schema"),
    ("create", {"schema": "nonsense"}, "schema"),
    ("create", {"schema": {"type": "struct", "fields": [{}]}}, None),
    ("create", {"schema": SCHEMA.to_json(), "partition_columns": ["nope"]}, None),
    (
        "create",
        {"schema": SCHEMA.to_json(), "partition_columns": ["id"], "clustering_columns": ["id"]},
        "clustering_columns",
    ),
    ("create", {"schema": SCHEMA.to_json(), "if_not_exists": True, "replace": True}, "replace"),
    ("set_properties", {"properties": {}}, "properties"),
    ("set_properties", {"properties": {"": "x"}}, "properties"),
    ("set_properties", {"properties": 5}, "properties"),
    ("unset_properties", {"keys": []}, "keys"),
    ("merge", {"source": FILES, "on": "a = b", "clauses": []}, "clauses"),
    ("merge", {"source": FILES, "on": "a = b", "clauses": "x"}, "clauses"),
    ("merge", {"source": FILES, "on": "a = b", "clauses": [5]}, "clauses"),
    (
        "merge",
        {"source": FILES, "on": "a = b", "clauses": [{"when": "never", "action": "delete"}]},
        "clauses.when",
    ),
    (
        "merge",
        {"source": FILES, "on": "a = b", "clauses": [{"when": "matched", "action": "update"}]},
        "clauses",
    ),
    ("alter_add_columns", {"columns": {"type": "struct", "fields": []}}, "columns"),
    ("alter_change_column", {"column": "a"}, "column"),
    ("alter_change_column", {"column": "a", "new_type": "BLOB"}, None),
    ("alter_change_column", {"column": "a", "new_type": "INT", "comment": "x"}, "column"),
    ("alter_cluster_by", {"columns": ["a", "b", "c", "d", "e"]}, "columns"),
    ("alter_drop_feature", {"feature": ""}, "feature"),
]


@pytest.mark.parametrize(
    ("kind", "parameters", "field"), _BAD, ids=[f"{n}-{row[0]}" for n, row in enumerate(_BAD)]
)
def test_bad_parameters_are_refused_by_field(kind, parameters, field):
    with pytest.raises(RequestError) as caught:
        Command.from_parameters(kind, parameters)
    assert caught.value.remedy
    if field is not None:
        assert caught.value.field == field


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.data(), st.sampled_from(list(COMMANDS)))
def test_any_input_raises_only_engine_errors(data, kind):
    names = [parameter.name for parameter in COMMANDS[kind].list_parameters()]
    parameters = data.draw(st.dictionaries(st.sampled_from(names), _JSON, max_size=4))
    try:
        command = Command.from_parameters(kind, parameters)
        json.dumps(command.parameters())
        assert command.statement()
        command.validate(SCHEMA)
    except EngineError:
        return


_WORDS = st.sampled_from(
    [
        "DELETE",
        "FROM",
        "t",
        "WHERE",
        "a",
        "=",
        "1",
        "UPDATE",
        "SET",
        "MERGE",
        "INTO",
        "USING",
        "ON",
        "WHEN",
        "MATCHED",
        "THEN",
        "INSERT",
        "VALUES",
        "(",
        ")",
        ",",
        ".",
        ";",
        "*",
        "=",
        "CREATE",
        "TABLE",
        "ALTER",
        "OPTIMIZE",
        "VACUUM",
        "RETAIN",
        "HOURS",
        "ZORDER",
        "BY",
        "'x'",
        "`y`",
        "5",
        "CASE",
        "END",
        "SELECT",
        "ADD",
        "COLUMN",
        "INT",
        "<",
        ">",
        "delta.`/x`",
        "TBLPROPERTIES",
        "REORG",
        "APPLY",
        "PURGE",
        "RESTORE",
        "TO",
        "VERSION",
        "AS",
        "OF",
        "DRY",
        "RUN",
        "NOT",
        "NULL",
        "--",
        "/*",
        "*/",
        "'",
    ]
)


@given(st.lists(_WORDS, max_size=14).map(" ".join) | st.text(max_size=60))
def test_any_statement_raises_only_engine_errors(text):
    try:
        command = parse_statement(text)
    except EngineError:
        return
    assert parse_statement(command.statement()) == command


def test_options_of_files_keep_their_blanks():
    command = Command.from_parameters(
        "append", {"source": {**FILES, "delimiter": "\t", "null_text": " "}}
    )
    assert command.source == FileSource("/data/x.csv", "csv", delimiter="\t", null_text=" ")
    assert parse_statement(command.statement()).source == command.source


def test_the_author_of_a_script_is_referred_to_merge_and_transactions():
    assert "use MERGE" in COMMANDS["script"].help
    semantics = Path(__file__).resolve().parents[3] / "docs" / "semantics.md"
    told = "the table holds the key twice at either isolation level. Use a transaction or `MERGE`"
    assert told in semantics.read_text("utf-8")


def test_commands_compare_by_value_and_cannot_be_changed():
    assert Delete("id = 1") == Delete("id = 1", table="")
    with pytest.raises(AttributeError):
        Delete("id = 1").where = "id = 2"
