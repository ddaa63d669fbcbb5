"""Jobs of the light queue run without a JVM."""

import pytest

from engine.commands.model import COMMANDS, Command
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.jobs.command_rules import handles_rows, queue_of
from tests.lakeui.catalog.log_writer import SCHEMA

COLUMN = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
PARAMETERS = {
    "alter_add_columns": {"columns": COLUMN},
    "alter_cluster_by": {"columns": ["country"]},
    "alter_drop_columns": {"columns": ["country"]},
    "alter_drop_constraint": {"name": "positive"},
    "alter_rename_column": {"column": "country", "new_name": "land"},
    "clone": {"source_table": "lake.orders", "replace": True},
    "restore": {"version": 0},
    "set_properties": {"properties": {"team": "sales"}},
    "truncate": {},
    "unset_properties": {"keys": ["delta.constraints.positive"]},
    "vacuum": {},
}
PROPERTIES = {"delta.columnMapping.mode": "name", "delta.constraints.positive": "id > 0"}


def test_every_light_kind_is_a_command_and_tried_here():
    kinds = COMMANDS.keys() - {"create", "script"}
    assert set(PARAMETERS) == {kind for kind in kinds if not handles_rows(kind)}


@pytest.mark.parametrize("kind", sorted(PARAMETERS))
def test_a_light_kind_needs_no_spark(tmp_path, kind):
    table, other = (
        DeltaTable.create(str(tmp_path / name), SCHEMA, properties=PROPERTIES) for name in "ts"
    )
    command = Command.from_parameters(kind, PARAMETERS[kind])
    assert queue_of(command, dry_run=False) == "light"
    run(command, table, None, resolve={"lake.orders": other}.__getitem__)


def test_a_table_without_rows_is_created_without_spark(tmp_path):
    command = Command.from_parameters("create", {"schema": SCHEMA})
    assert queue_of(command, dry_run=False) == "light"
    assert queue_of(Command.from_parameters("optimize", {}), dry_run=False) == "spark"
