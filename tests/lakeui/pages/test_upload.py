"""Uploads: a file is sent, previewed under other types, and loaded by a job with these types."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job, Upload
from tests.lakeui.factories import make_user
from tests.lakeui.page_client import PageClient

CLICKS = b"id;code;at\n1;007;2026-01-02\n2;8;2026-01-03\n"


@pytest.fixture
def send_file(client_for, db):
    """Send a file as the owner; return the address of its page."""

    def send(name="clicks.csv", content=CLICKS):
        file = SimpleUploadedFile(name, content)
        response = client_for("owner").post("/tables/upload/", {"file": file})
        assert response.status_code == 302, response.content
        return response["Location"]

    return send


def load(page, **more):
    return {"act": "load", "name": "web.clicks", "delimiter": ";", "quote": '"', "header": "on",
            "bad_rows": "fail", **more}  # fmt: skip


def test_a_file_is_kept_and_shown_with_its_columns_and_rows(client_for, send_file):
    page = send_file()
    body = client_for("owner").get(page).content.decode()
    assert page == f"/tables/upload/{Upload.objects.get().pk}/"
    assert 'value="clicks"' in body  # a name to begin with
    for text in ("BIGINT", "DATE", "007", "2 rows"):
        assert text in body
    assert not Job.objects.exists()


def test_a_column_of_long_numbers_says_why_it_is_text(client_for, send_file):
    page = send_file("ids.csv", f"id,n\n{'1' * 39},2\n".encode())
    client = client_for("owner")
    assert "Some numbers have more digits than DOUBLE keeps" in client.get(page).content.decode()
    columns = client.get(f"/api/v1/uploads/{Upload.objects.get().pk}/preview/").json()["columns"]
    assert [(column["type"], bool(column["note"])) for column in columns] == [
        ("STRING", True),
        ("BIGINT", False),
    ]


def test_a_script_is_sent_to_the_page(client_for, db):
    file = SimpleUploadedFile("clicks.csv", CLICKS)
    response = client_for("owner").post("/tables/upload/", {"file": file}, HTTP_HX_REQUEST="true")
    assert response["HX-Redirect"] == f"/tables/upload/{Upload.objects.get().pk}/"


def test_the_job_uses_the_chosen_types(client_for, send_file):
    page = send_file()
    chosen = {"column.1": "code", "inferred.1": "STRING", "type.1": "int"}
    response = client_for("owner").post(page, load(page, **chosen))
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.table.name, job.table.version) == ("create", "web.clicks", None)
    types = {field["name"]: field["type"] for field in job.parameters["schema"]["fields"]}
    assert types == {"id": "long", "code": "integer", "at": "date"}
    assert job.parameters["source"]["delimiter"] == ";"


def test_the_job_page_says_that_the_table_is_not_there_yet_until_it_is(client_for, send_file):
    page = send_file()
    client_for("owner").post(page, load(page))
    job = Job.objects.get()
    assert (
        "web.clicks is not there yet"
        in client_for("owner").get(f"/jobs/{job.pk}/").content.decode()
    )
    Job.objects.filter(pk=job.pk).update(state=Job.State.SUCCEEDED, committed_version=0)
    job.table.version = 0
    job.table.save(update_fields=["version"])
    assert "is not there yet" not in client_for("owner").get(f"/jobs/{job.pk}/").content.decode()


def test_an_invalid_type_is_refused_at_its_column_before_the_job(client_for, send_file):
    page = send_file()
    chosen = {"column.1": "code", "inferred.1": "STRING", "type.1": "nonsense"}
    response = client_for("owner").post(page, load(page, **chosen))
    body = response.content.decode()
    assert response.status_code == 400
    assert 'id="problem-1"' in body
    assert "is not a type" in body
    assert not Job.objects.exists()


def test_looking_again_needs_no_name_and_gives_the_fragment(client_for, send_file):
    page = send_file()
    asked = load(page, act="look", name="", delimiter=",")
    response = client_for("owner").post(page, asked, HTTP_HX_REQUEST="true")
    body = response.content.decode()
    assert response.status_code == 200
    assert body.lstrip().startswith('<div class="stack" id="sample"')
    assert "id;code;at" in body  # one column, by that delimiter


@pytest.mark.parametrize(
    "fields",
    [{"name": "../clicks"}, {"name": ""}, {"delimiter": "nonsense"}, {"quote": "''"},
     {"clustering_columns": "no_such"}],
)  # fmt: skip
def test_an_impossible_upload_is_refused_and_nothing_queued(client_for, send_file, fields):
    page = send_file()
    assert client_for("owner").post(page, load(page, **fields)).status_code == 400
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n\xff\xff\n", "not UTF-8"),
        (b"\n", "has no rows"),
        (",".join(f"c{n}" for n in range(100_000)).encode(), "columns: 10,000 is the limit"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_on_its_page(client_for, send_file, content, said):
    page = send_file("rows.csv", content)
    shown = client_for("owner").get(page)
    assert shown.status_code == 200
    assert said in shown.content.decode()
    assert client_for("owner").post(page, load(page, delimiter=",")).status_code == 400
    assert not Job.objects.exists()


def test_a_file_is_for_its_sender_alone(client_for, send_file):
    page = send_file()
    other = PageClient()
    other.force_login(make_user("other", Role.MAINTAINER))
    assert other.get(page).status_code == 404
    assert client_for("operator").get(page).status_code == 403
    assert client_for("owner").get(page.replace(page[-5:-1], "0000")).status_code == 404


@pytest.mark.parametrize("name", ["clicks.exe", ".csv", "clicks"])
def test_a_file_of_no_format_is_refused_at_its_field(client_for, db, name):
    file = SimpleUploadedFile(name, CLICKS)
    assert client_for("owner").post("/tables/upload/", {"file": file}).status_code == 400
    assert not Upload.objects.exists()


def test_a_wide_file_offers_the_types_of_its_first_columns(client_for, send_file):
    page = send_file(
        "wide.csv", b",".join(b"c%d" % n for n in range(500)) + b"\n" + b"1," * 499 + b"1\n"
    )
    body = client_for("owner").get(page).content.decode()
    assert 'name="type.99"' in body
    assert 'name="type.100"' not in body
    assert "400 more columns keep their types" in body


def test_names_that_parquet_forbids_are_mapped(client_for, send_file):
    page = send_file("clicks.csv", b"order id;b\n1;2\n")
    client_for("owner").post(page, load(page))
    assert Job.objects.get().parameters["properties"] == {"delta.columnMapping.mode": "name"}


def test_a_parquet_file_that_unfolds_beyond_bounds_is_no_danger(client_for, send_file, tmp_path):
    place = tmp_path / "bomb.parquet"
    column = pa.array([b"\0" * 400_000_000], pa.binary())
    table = pa.table({"a": column})
    pq.write_table(table, place, use_dictionary=False, compression="zstd", write_statistics=False)
    assert place.stat().st_size < 1_000_000
    body = client_for("owner").get(send_file("bomb.parquet", place.read_bytes())).content.decode()
    assert "The file cannot be" in body


def test_parquet_is_read_in_a_process_of_its_own(client_for, send_file, tmp_path):
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "rows.parquet")
    body = client_for("owner").get(
        send_file("rows.parquet", (tmp_path / "rows.parquet").read_bytes())
    )
    assert "types from the file" in body.content.decode()
