"""Clients generated from the OpenAPI document: find, change, wait, and look."""

import importlib
import subprocess
import sys
from types import ModuleType

import httpx
import pytest
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

from lakeui.jobs.models import Job
from tests.interop.fetch import OutOfReachError, fetch_openapi_generator
from workers import jobs

pytestmark = pytest.mark.django_db(transaction=True)
PACKAGE = "lakeui_generated_client"


@pytest.fixture(scope="module")
def client_package(tmp_path_factory):
    """Return the package that openapi-python-client generates, and the generator's output."""
    place = tmp_path_factory.mktemp("generated")
    call_command("spectacular", file=str(place / "openapi.yml"))
    (place / "config.yml").write_text("post_hooks: []\n")
    made = subprocess.run(  # noqa: S603 - this interpreter
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", "openapi.yml", "--output-path", PACKAGE, "--config", "config.yml"),
        ],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    sys.path.insert(0, str(place))
    yield made.stdout + made.stderr
    sys.path.remove(str(place))
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def part(name: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{name}")


@pytest.fixture
def client(client_package, orders, token):
    with part("client").AuthenticatedClient(
        "http://testserver",
        token,
        httpx_args={"transport": httpx.WSGITransport(get_wsgi_application())},
    ) as opened:
        yield opened


def test_every_endpoint_is_generated(client_package):
    assert "WARNING" not in client_package


def test_a_row_is_deleted_awaited_and_looked_up(client):
    models, tables = part("models"), "api.tables."
    listed = part(tables + "tables_list").sync(client=client)
    table = listed.items[0]
    assert (table.name, table.version) == ("sales.orders", 1)
    parameters = models.DeleteParameters(where="n = 2")
    request = models.DeleteJobRequest(kind="delete", parameters=parameters, reason="GDPR")
    queue = part(tables + "tables_jobs_create").sync
    queued = queue(table.id, client=client, body=request, idempotency_key="once")
    assert queue(table.id, client=client, body=request, idempotency_key="once").id == queued.id
    jobs.run_job.apply(args=[str(Job.objects.get().pk)])
    job = part("api.jobs.jobs_retrieve").sync(queued.id, client=client, wait=5)
    assert (job.state, job.committed_version) == ("succeeded", 2)
    versions = part(tables + "tables_versions_list").sync(table.id, client=client)
    assert [version.version for version in versions.items] == [2, 1, 0]
    eligibility = part(tables + "tables_eligibility_retrieve").sync(table.id, client=client)
    assert eligibility.eligible is False
    assert part("api.conflicts.conflicts_list").sync(client=client).items == []


def test_a_refusal_is_a_problem_with_its_code_and_field(client):
    models = part("models")
    table = part("api.tables.tables_list").sync(client=client).items[0]
    request = models.DeleteJobRequest(
        kind="delete", parameters=models.DeleteParameters(where="nowhere = 1")
    )
    answer = part("api.tables.tables_jobs_create").sync_detailed(
        table.id, client=client, body=request
    )
    assert answer.status_code == 422
    assert isinstance(answer.parsed, models.Problem)
    assert answer.parsed.code
    assert "nowhere" in answer.parsed.detail
    assert not Job.objects.exists()


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_a_client_of_openapi_generator_runs_the_same_requests(
    orders, token, live_server, tmp_path, monkeypatch
):
    try:
        jar = fetch_openapi_generator()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    call_command("spectacular", file=str(tmp_path / "openapi.yml"))
    subprocess.run(  # noqa: S603 - Java, with arguments from here
        [
            *("java", "-jar", str(jar), "generate", "-g", "python", "-i", "openapi.yml"),
            *("-o", "made", "--package-name", "lakeui_openapi"),
        ],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    monkeypatch.syspath_prepend(str(tmp_path / "made"))
    made = importlib.import_module("lakeui_openapi")
    where = made.Configuration(host=live_server.url, access_token=token)
    with made.ApiClient(where) as client:
        tables, wait = made.TablesApi(client), made.JobsApi(client).jobs_retrieve
        table = tables.tables_list().items[0]

        def request_delete(where: str) -> object:
            parameters = made.DeleteParameters(where=where)
            request = made.DeleteJobRequest(kind="delete", parameters=parameters)
            return made.JobRequestRequest(made.CommandJobRequest(request))

        queued = tables.tables_jobs_create(table.id, job_request_request=request_delete("n = 2"))
        jobs.run_job.apply(args=[str(Job.objects.get().pk)])
        job = wait(queued.id, wait=5)
        assert (job.state, job.committed_version) == ("succeeded", 2)
        versions = tables.tables_versions_list(table.id).items
        assert [version.version for version in versions] == [2, 1, 0]
        with pytest.raises(made.ApiException, match="nowhere") as caught:
            tables.tables_jobs_create(table.id, job_request_request=request_delete("nowhere = 1"))
        assert caught.value.status == 422
