"""The examples of docs/examples, each run against the real REST interface and real jobs.

Airflow and Dagster are heavy: their examples run in the Python that AIRFLOW_PYTHON or DAGSTER_PYTHON names
(with httpx installed), or in this one if it has them, and are otherwise skipped with a message.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta

import jinja2
import pyarrow as pa
import pytest
import yaml
from django.contrib.auth.models import User
from django.core.cache import cache
from knox.models import get_token_model

from engine.commands.sql import parse_request
from engine.schema.types import LONG, StructField, StructType
from engine.storage.uri import open_store
from lakeui import event_streams
from lakeui.catalog.registration import register_table
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job
from tests.engine.made_tables import write_commit, write_first, write_rows
from tests.services import ROOT
from workers import jobs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]
EXAMPLES = ROOT / "docs/examples"
AIRFLOW = """
import asyncio, importlib, json, sys
from types import SimpleNamespace
from airflow.sdk.exceptions import TaskDeferred
import airflow_lakeui
from airflow_lakeui import LakeuiOperator

assert importlib.import_module("airflow_dag").delete.downstream_task_ids == {"optimize"}

def run(statement, number):
    operator = LakeuiOperator(task_id="delete", table="sales.orders", statement=statement)
    ti = SimpleNamespace(dag_id="d", task_id="delete", run_id="r", map_index=-1, try_number=number)
    try:
        operator.execute({"ti": ti})
    except TaskDeferred as deferred:
        path, given = deferred.trigger.serialize()
        module, _, name = path.rpartition(".")
        trigger = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(given)))
        async def first():
            async for event in trigger.run():
                return event
        event = asyncio.run(first())
        try:
            return getattr(operator, deferred.method_name)({}, event.payload)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

asked = [("DELETE FROM sales.orders WHERE n < 2", 1)] * 2 + [("DELETE FROM sales.orders WHERE m < 2", 2)]
answers = []
for statement, number in asked:
    try:
        answers.append(run(statement, number))
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
print("ANSWERS", json.dumps(answers))
"""
DAGSTER = """
from dagster import materialize
from dagster_lakeui import RESOURCES, orders_without_old_rows
done = materialize([orders_without_old_rows], resources=RESOURCES)
(made,) = done.asset_materializations_for_node("orders_without_old_rows")
print("ANSWERS", made.metadata["version"].value)
"""


@pytest.fixture
def installation(lake, settings, live_server, monkeypatch):
    """Yield a server with a table; queued jobs run when a client waits for them. Return its variables."""
    settings.CELERY_TASK_ALWAYS_EAGER = False
    settings.ALLOWED_HOSTS = ["*"]
    cache.clear()
    store = open_store(str(lake / "lake/orders"))
    write_first(store, StructType((StructField("n", LONG),)))
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    write_commit(store, 1, write_rows(store, "a.parquet", rows))
    register_table(str(lake / "lake/orders"), "sales.orders")
    asked = event_streams._ask

    def look(is_news):
        for job in Job.objects.filter(state=Job.State.QUEUED):
            jobs.run_job.apply(args=[str(job.pk)])
        return asked(is_news)

    monkeypatch.setattr(event_streams, "PAUSE_S", 0.01)
    monkeypatch.setattr(event_streams, "_ask", look)
    ada = User.objects.create_superuser("ada")
    _, token = get_token_model().objects.create(
        user=ada, expiry=timedelta(hours=1), name="ci", role=Role.ADMIN
    )
    own = {"LAKEUI_URL": live_server.url, "LAKEUI_TOKEN": token, "HOME": str(lake)}
    places = {"PYTHONPATH": f"{ROOT}:{EXAMPLES}", "AIRFLOW_HOME": str(lake), "DAGSTER_HOME": ""}
    return {"PATH": os.environ["PATH"], **own, **places}


def run(command, environment, **more):
    return subprocess.run(  # noqa: S603 - an example
        command, env=environment | more, capture_output=True, text=True, timeout=120, check=False
    )


def python_with(package):
    """Return a Python that has the package, or the reason why none exists."""
    named = os.environ.get(f"{package.upper()}_PYTHON", "")
    if not named and importlib.util.find_spec(package) is None:
        pytest.skip(
            f"{package} is not installed: name a Python that has it by {package.upper()}_PYTHON"
        )
    return named or sys.executable


def answers_of(done):
    told = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert told, done.stdout + done.stderr
    return json.loads(told[-1].removeprefix("ANSWERS "))


def test_airflow_defers_until_the_job_ended(installation):
    done = run([python_with("airflow"), "-c", AIRFLOW], installation)
    first, second, refused = answers_of(done)
    assert first == second == 2  # a task that came again found its job
    assert Job.objects.count() == 1
    assert "There is no column m" in refused


def test_dagster_materializes_a_table_by_a_job(installation):
    del installation["DAGSTER_HOME"]
    done = run([python_with("dagster"), "-c", DAGSTER], installation)
    assert answers_of(done) == 2
    assert Job.objects.get().committed_version == 2


def actions_step():
    workflow = yaml.safe_load((EXAMPLES / "github_actions.yml").read_text("utf-8"))
    (step,) = workflow["jobs"]["delete"]["steps"]
    return workflow["jobs"]["delete"]["env"]["TABLE"], step["run"]


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "curl", "jq"))), reason="needs curl and jq")
def test_github_actions_wait_for_a_job_and_fail_with_it(installation):
    table, script = actions_step()
    given = {"TABLE": table, "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1"}
    done = run(["bash", "-c", script], installation, **given)
    assert (done.returncode, done.stdout.strip()) == (0, "Committed version 2"), done.stderr
    Job.objects.update(state=Job.State.FAILED, error_code="A_CODE", error_message="No.")
    again = run(["bash", "-c", script], installation, **given)
    assert (again.returncode, again.stdout.strip()) == (1, "A_CODE: No.")
    assert Job.objects.count() == 1  # by its key
    elsewhere = run(["bash", "-c", script], installation, **(given | {"TABLE": "sales.nothing"}))
    assert elsewhere.returncode != 0


def test_dbt_results_become_jobs(installation, lake):
    written = [
        {"status": "success", "relation_name": "`spark_catalog`.`sales`.`orders`"},
        {"status": "success", "relation_name": "`sales`.`unknown`"},
        {"status": "error", "relation_name": "`sales`.`orders`"},
        {"status": "success", "relation_name": None},
    ]
    results = lake / "run_results.json"
    results.write_text(json.dumps({"metadata": {"invocation_id": "i"}, "results": written}))
    command = [sys.executable, str(EXAMPLES / "dbt_optimize.py"), str(results)]
    done = run(command, installation)
    assert (done.returncode, done.stdout) == (0, "sales.orders: succeeded\n"), done.stderr
    assert "sales.unknown is not registered" in done.stderr
    assert run(command, installation).stdout == "sales.orders: succeeded\n"
    assert Job.objects.count() == 1  # by the invocation


def test_dbts_macro_optimizes_the_written_table(db):
    """Jinja renders the macro with dbt's names; the engine supports its statements."""
    asked = []
    jinja = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)  # noqa: S701 - SQL
    names = {"execute": True, "run_query": asked.append, "flags": {"WHICH": "build"}}
    macro = jinja.from_string((EXAMPLES / "dbt_optimize.sql").read_text("utf-8"), globals=names)

    def result(status="success", kind="model", **config):
        node = {
            "resource_type": kind,
            "config": config,
            "relation_name": f"`sales`.`t{len(asked)}`",
        }
        return {"status": status, "node": node}

    results = [
        result(materialized="table"),
        result(materialized="view"),
        result("error"),
        result(kind="test"),
        result(materialized="incremental", file_format="parquet"),
    ]
    macro.module.optimize_written(results)
    assert asked == ["OPTIMIZE `sales`.`t0`"]
    assert parse_request(asked[0])[0].kind == "optimize"
