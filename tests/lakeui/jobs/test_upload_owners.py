"""Only its sender may use an uploaded file: checked on request, and again when the job runs."""

import uuid
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DatabaseError, connection

from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.jobs import leases
from lakeui.jobs.cancel_retry import retry_job
from lakeui.jobs.errors import UploadNotFoundError
from lakeui.jobs.models import Job, Upload
from lakeui.jobs.requests import request_job
from lakeui.jobs.schedules import create_schedule, run_now
from lakeui.jobs.uploads import check_upload, store_upload
from tests.lakeui.catalog.log_writer import new_table
from tests.lakeui.people import person
from workers.job_run import run_attempt

pytestmark = pytest.mark.django_db

SECRET = "id\n4711-secret\n"


@pytest.fixture
def lake(tmp_path, settings) -> Path:
    settings.TABLE_ROOTS = [str(tmp_path / "lake")]
    settings.UPLOAD_HOME = tmp_path / "shared" / "uploads"
    settings.SOURCE_ROOTS = [str(tmp_path / "shared")]
    (tmp_path / "shared").mkdir()
    return tmp_path


@pytest.fixture
def table(lake) -> Table:
    new_table(lake / "lake" / "orders")
    return register_table(str(lake / "lake" / "orders"), "sales.orders")


@pytest.fixture
def ada(lake) -> User:
    return person("ada", "operator")


@pytest.fixture
def bob() -> User:
    return person("bob", "operator")


@pytest.fixture
def upload(ada) -> str:
    return store_upload(SimpleUploadedFile("rows.csv", SECRET.encode()), ada)


def load(table: Table, uri: str, by: User | None) -> Job:
    source = {"kind": "files", "uri": uri, "format": "csv"}
    return request_job(table=table, kind="append", parameters={"source": source}, requested_by=by)


def test_the_sender_may_name_a_file_and_an_admin_may_too(table, upload, ada):
    assert load(table, upload, ada).state == Job.State.QUEUED
    assert load(table, upload, person("root", "admin")).state == Job.State.QUEUED
    assert Upload.objects.get().owner == ada


INSERT = "INSERT INTO t BY NAME SELECT * FROM read_files('{uri}', format => 'csv')"


@pytest.mark.parametrize(
    "sql",
    [
        INSERT,
        "INSERT OVERWRITE t BY NAME SELECT * FROM read_files('{uri}', format => 'csv')",
        "MERGE INTO t USING (SELECT * FROM read_files('{uri}', format => 'csv')) AS s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE",
        f"TRUNCATE TABLE t; {INSERT}",
    ],
)
def test_no_other_person_may_name_it_in_any_command(table, upload, bob, sql):
    with pytest.raises(UploadNotFoundError) as refused:
        request_job(table=table, sql=sql.format(uri=upload), requested_by=bob)
    assert refused.value.field == "source.uri"
    assert not Job.objects.exists()


def test_another_s_file_and_a_missing_one_are_reported_alike(table, upload, bob):
    missing = upload.replace(Path(upload).parent.name, uuid.uuid4().hex)
    told = []
    for uri in (upload, missing):
        with pytest.raises(UploadNotFoundError) as refused:
            load(table, uri, bob)
        told.append(str(refused.value).replace(uri, ""))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "spelled",
    [
        "{home}",
        "{home}/",
        "file://{home}",
        "{shared}",
        "{shared}/./uploads",
        "{place}",
        "{shared}/..",
    ],
)
def test_a_folder_of_uploads_is_no_source_for_its_sender_or_an_admin(
    table, upload, ada, lake, settings, spelled
):
    settings.SOURCE_ROOTS = [str(lake)]
    places = {"home": settings.UPLOAD_HOME, "shared": lake / "shared"}
    uri = spelled.format(place=Path(upload).parent, **places)
    for by in (ada, person("root", "admin")):
        with pytest.raises(UploadNotFoundError):
            load(table, uri, by)


def test_another_s_file_is_found_under_any_name_of_its_place(table, upload, bob, lake):
    (lake / "shared" / "link").symlink_to(Path(upload).parent)
    name, place = Path(upload).name, Path(upload).parent
    for uri in (f"file:{upload}", f"{place}/../{place.name}/{name}", f"{lake}/shared/link/{name}"):
        with pytest.raises(UploadNotFoundError):
            load(table, uri, bob)


def test_files_beside_the_uploads_are_for_everybody_as_before(table, upload, bob, lake):
    (lake / "shared" / "rows").mkdir()
    assert load(table, str(lake / "shared" / "rows"), bob).state == Job.State.QUEUED
    check_upload("s3://bucket/uploads/x.csv", bob)


def test_the_system_names_no_upload(table, upload):
    with pytest.raises(UploadNotFoundError):
        load(table, upload, None)


def test_the_worker_looks_again_and_quotes_nothing_of_the_file(table, upload, ada, bob):
    job = load(table, upload, ada)
    Job.objects.filter(pk=job.pk).update(requested_by=bob)
    run_attempt(leases.claim(job.pk, "spark@here"))
    job.refresh_from_db()
    assert (job.state, job.error_code) == (Job.State.FAILED, "LAKE_UPLOAD_NOT_FOUND")
    told = [job.error_message, str(job.error_facts), *job.events.values_list("message", flat=True)]
    assert not any("4711" in text for text in told)


def test_a_job_of_a_deleted_person_no_longer_reads_their_file(table, upload, ada):
    job = load(table, upload, ada)
    ada.delete()
    assert not Upload.objects.exists()
    run_attempt(leases.claim(job.pk, "spark@here"))
    job.refresh_from_db()
    assert job.error_code == "LAKE_REQUESTER_GONE"
    with pytest.raises(UploadNotFoundError):
        retry_job(job, None)


def test_running_another_persons_job_or_schedule_again_is_refused_for_its_file(
    table, upload, ada, bob
):
    job = load(table, upload, ada)
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED)
    job.refresh_from_db()
    schedule = create_schedule(
        table=table, name="n", cron="0 3 * * *", kind="append", parameters=job.parameters, owner=ada
    )
    with pytest.raises(UploadNotFoundError):
        retry_job(job, bob)
    with pytest.raises(UploadNotFoundError):
        run_now(schedule, bob)
    admin = person("root", "admin")
    assert retry_job(job, admin).requested_by == run_now(schedule, admin).requested_by == admin


def test_a_file_whose_row_could_not_be_written_is_not_kept(lake, ada, settings):
    def refuse_uploads(execute, sql, params, many, context):
        if "jobs_upload" in sql:
            raise DatabaseError
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse_uploads), pytest.raises(DatabaseError):
        store_upload(SimpleUploadedFile("rows.csv", b"1"), ada)
    assert not list(settings.UPLOAD_HOME.glob("*"))


def test_pages_and_rest_refuse_another_s_file_without_an_accident(table, upload, bob, client):
    client.force_login(bob)
    body = {"sql": INSERT.format(uri=upload)}
    answer = client.post(f"/api/v1/tables/{table.pk}/jobs/", body, "application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "LAKE_UPLOAD_NOT_FOUND")
    shown = client.post("/jobs/new/", {"table": table.pk, "kind": "sql", "step": "run", **body})
    assert "no uploaded file at" in shown.content.decode()
