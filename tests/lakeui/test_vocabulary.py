"""Lineage, forecasts, guards and history use the vocabulary for every command."""

import pytest
from django.utils import timezone

from engine.commands.model import COMMANDS as COMMAND_MODELS
from engine.commands.sql import parse_statement
from engine.schema.types import StructType
from engine.vocabulary import OPERATIONS, Changes, Family, Removes, StatementKind
from lakeui.catalog.access import action_for_kind
from lakeui.catalog.models import Commit
from lakeui.catalog.row_counts import NO_ROWS, RowCounts, rows_of
from lakeui.conflicts.models import Pipeline, PipelineTransaction
from lakeui.conflicts.statements.operations import Target, operation_of
from lakeui.conflicts.statements.text import DEFINITION, INSERT, statement_kind
from lakeui.jobs.row_impact import asks_name
from lakeui.monitoring.lineage.events import events_of_job, events_of_transaction, name_of
from tests.engine.test_vocabulary import IN_PROCESS, ON_SPARK
from tests.lakeui.factories import make_job, make_table

COMMANDS = [parse_statement(text) for text in (*IN_PROCESS, *ON_SPARK)]
READ_NO_ROW = (
    "TRUNCATE TABLE t",
    "ALTER TABLE t SET TBLPROPERTIES ('team' = 'sales')",
    "ALTER TABLE t ADD COLUMNS (more STRING)",
    "INSERT INTO t BY NAME SELECT * FROM STREAM(other)",
    "CREATE OR REPLACE TABLE t SHALLOW CLONE other",
)


@pytest.mark.django_db
def test_lineage_names_a_table_as_an_input_of_a_job_that_reads_its_rows():
    table = make_table(name="t")
    reads = [(command, command.reads_itself) for command in COMMANDS]
    reads += [(parse_statement(text), False) for text in READ_NO_ROW]
    reads.append((parse_statement("INSERT INTO t SELECT * FROM t"), True))
    reads.append((parse_statement("TRUNCATE TABLE t; OPTIMIZE t"), True))
    reads.append((parse_statement("TRUNCATE TABLE t; VACUUM t"), False))
    for command, is_input in reads:
        job = make_job(table, kind=command.kind, parameters=command.parameters())
        inputs = {(dataset.namespace, dataset.name) for dataset in events_of_job(job)[0].inputs}
        assert (name_of(table.uri) in inputs) == is_input, command.statement()


@pytest.mark.django_db
def test_lineage_of_a_program_names_the_table_as_an_input_where_its_operation_reads_rows():
    """An operation that is not reported may have read the table."""
    table, now = make_table(name="t"), timezone.now()
    pipeline = Pipeline.objects.create(name="nightly", first_seen_at=now, last_seen_at=now)
    for operation, reads in {"WRITE": False, "TRUNCATE": False, "MERGE": True, "": True}.items():
        row = PipelineTransaction(
            pipeline=pipeline, table=table, operation=operation, read_version=3, reported_at=now
        )
        assert bool(events_of_transaction(row)[0].inputs) == reads, operation


@pytest.mark.django_db
def test_a_forecast_uses_the_part_of_a_command_in_conflicts():
    target = Target("t", "memory://t", StructType(()), "{}")
    for command in COMMANDS:
        reads_itself = command.kind == "append" and command.names_itself
        part = StatementKind.INSERT_SELECT if reads_itself else command.operation.statement
        assert operation_of(command, target).kind is part, command.statement()


def test_a_command_that_removes_every_row_requires_the_name_and_one_that_removes_nothing_does_not():
    for command in COMMANDS:
        removes = command.operation.removes
        if removes in (Removes.ALL_ROWS, Removes.NOTHING):
            assert asks_name(command) == (removes is Removes.ALL_ROWS), command.statement()
        assert command.removes_rows == (removes is not Removes.NOTHING)


def test_every_command_needs_the_role_that_is_named_here():
    """The role follows from what a command changes; restoring a whole state needs an admin."""
    rows = {"append", "overwrite", "delete", "update", "merge", "stream", "truncate"}
    writes = rows | {"script", "transaction"}
    for kind in COMMAND_MODELS:
        named = "admin" if kind == "restore" else "write" if kind in writes else "maintain"
        assert action_for_kind(kind, {}) == named, kind
    assert action_for_kind("not_in_the_vocabulary", {}) == "admin"


def test_history_counts_and_draws_the_rows_of_operations_that_change_rows():
    for row in OPERATIONS:
        commit = Commit(operation=row.name, operation_metrics={}, changes_data=True)
        assert rows_of(commit) == NO_ROWS
        if row.changes == Changes.ROWS | Changes.TERMS:
            assert row.family is Family.WRITE
        elif row.changes and not row.changes & (Changes.ROWS | Changes.FILES):
            assert row.family is Family.META
            assert statement_kind(row.name) == DEFINITION or row.name == "CREATE TABLE"
    assert statement_kind("REPLACE TABLE") != INSERT


def test_a_replaced_table_lost_its_rows_under_any_name_of_the_operation():
    counts = [
        rows_of(
            Commit(
                operation=name, operation_metrics={}, changes_data=True,
                files_added=1, files_removed=2, rows_added=3, rows_removed=5,
            )
        )
        for name in ("REPLACE TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE AS SELECT")
    ]  # fmt: skip
    assert counts == [RowCounts(3, None, 5, is_overwrite=True)] * 3
