"""A job's statement reads its own table, requested by REST or by the program, whatever else has its name."""

from itertools import cycle

import pytest
from rest_framework.test import APIClient

from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job
from tests.engine.operations.own_names import FORMS, ROWS, SHADOWS
from tests.workers.test_spark_jobs import SPARK_START_S, expect_success

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

_SPELLINGS = (("t", "t"), ("sales.orders", "Sales.`orders`"), ("t", "sales.orders"))
"""How a statement calls the job's table, and how its queries do."""


def _create_table(place, name: str, rows: object) -> Table:
    table = DeltaTable(open_store(str(place)))
    run("CREATE TABLE t (id BIGINT, v STRING)", table)
    run(f"INSERT INTO t VALUES {rows}", table)  # noqa: S608 - of this module
    return register_table(str(place), name)


def test_a_job_reads_its_own_table(start_worker, lake, ada):
    decoys = [
        _create_table(lake / "lake" / f"decoy{number}", name, "(1, 'DECOY')")
        for number, name in enumerate(("t", "orders"))
    ]
    table = _create_table(lake / "lake/orders", "sales.orders", ", ".join(map(str, ROWS)))
    first = table.version
    caller = APIClient()
    caller.force_login(ada)
    start_worker("spark", SPARK_START_S)
    cases = [
        (form.format(t=own, r=read), rows)
        for (form, rows), (own, read) in zip(
            (FORMS | SHADOWS).items(), cycle(_SPELLINGS), strict=False
        )
    ]
    for number, (statement, rows) in enumerate(cases):
        if number % 2:
            job = request_job(table=table, sql=statement, requested_by=ada)
        else:
            path = f"/api/v1/tables/{table.pk}/jobs/"
            answer = caller.post(path, {"sql": statement}, format="json")
            assert answer.status_code in {201, 202}, (statement, answer.json())
            job = Job.objects.get(pk=answer.json()["id"])
        expect_success(job)
        opened = DeltaTable.open(table.uri)
        left = [(row["id"], row["v"]) for row in opened.snapshot().to_arrow().to_pylist()]
        assert sorted(left) == rows, statement
        run(f"RESTORE TABLE t TO VERSION AS OF {first}", opened)
    assert {DeltaTable.open(decoy.uri).version() for decoy in decoys} == {1}
