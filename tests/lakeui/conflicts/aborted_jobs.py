"""A table of two files with a genuinely aborted job, from which trials and reruns start."""

import json

import pyarrow as pa
import pytest
from django.contrib.auth.models import User

from engine.commands.sql import parse_statement
from engine.errors import ConflictError
from engine.operations.run import run
from engine.schema.types import LONG, StructField, StructType
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.recording import AttemptOrigin, record_aborted
from lakeui.jobs.command_rules import statement_of
from lakeui.jobs.models import Job
from tests.engine.made_tables import write_commit, write_first, write_rows

SCHEMA = StructType((StructField("id", LONG), StructField("n", LONG)))
UPDATE, DELETE = "UPDATE t SET n = 7 WHERE id >= 5", "DELETE FROM t WHERE id = 6"


def create_aborted_job(
    uri: str,
    person: User,
    mine: str = UPDATE,
    theirs: str = DELETE,
    name: str = "sales.orders",
) -> Conflict:
    """Return a job that a DELETE aborted by files, recorded as a worker records it."""
    delta = DeltaTable(LocalStore(uri))
    write_first(delta.store, SCHEMA)
    write_commit(
        delta.store,
        1,
        _file(delta, "a.parquet", range(10)),
        _file(delta, "b.parquet", range(10, 20)),
    )
    command = parse_statement(mine)
    with pytest.raises(ConflictError) as raised:
        run(command, delta, None, observer=_Lands(delta, theirs))
    row = Table.objects.create(
        name=name,
        uri=uri,
        version=2,
        schema=json.loads(SCHEMA.to_json()),
        isolation_level="WriteSerializable",
    )
    common = {"table": row, "requested_by": person, "queue": "spark"}
    job = Job.objects.create(
        kind=command.kind, parameters=command.parameters(), state=Job.State.CONFLICTED,
        statement=statement_of(command, row), **common,
    )  # fmt: skip
    winner = parse_statement(theirs)
    Job.objects.create(
        kind=winner.kind, parameters=winner.parameters(), committed_version=2,
        state=Job.State.SUCCEEDED, **common,
    )  # fmt: skip
    return record_aborted(raised.value, table=row, origin=AttemptOrigin(attempt=1, job_id=job.pk))


def _file(table: DeltaTable, name: str, ids: range):
    bounds = {"minValues": {"id": ids[0]}, "maxValues": {"id": ids[-1]}}
    stats = json.dumps({"numRecords": len(ids), **bounds})
    rows = pa.table({"id": ids, "n": [0] * len(ids)})
    return write_rows(table.store, name, rows, stats=stats)


class _Lands(TransactionObserver):
    def __init__(self, table: DeltaTable, statement: str) -> None:
        self._table, self._statement = table, statement

    def staged(self, txn) -> None:  # noqa: ARG002 - of the protocol
        run(parse_statement(self._statement), DeltaTable(self._table.store), None)
