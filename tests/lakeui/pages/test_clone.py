"""The form for a clone: it requests a job, and shows errors at the field."""

from lakeui.catalog.models import Table
from lakeui.jobs.models import Job


def test_a_clone_is_requested_and_its_job_shown(client_for, lake):
    page = client_for("owner").get("/tables/clone/?of=sales.orders").content.decode()
    assert 'value="sales.orders"' in page
    given = {"name": "sales.copy", "source_table": "sales.orders", "version": "1"}
    response = client_for("owner").post("/tables/clone/", given)
    job = Job.objects.get(kind="clone")
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert job.statement == "CREATE TABLE sales.copy SHALLOW CLONE sales.orders VERSION AS OF 1"


def test_a_deep_clone_is_a_job_for_the_workers_that_move_data(client_for, lake):
    given = {"name": "sales.copy", "source_table": "sales.orders", "deep": "yes"}
    client_for("owner").post("/tables/clone/", given)
    job = Job.objects.get(kind="clone")
    assert (job.queue, job.statement) == (
        "spark",
        "CREATE TABLE sales.copy DEEP CLONE sales.orders",
    )


def test_an_error_of_the_form_is_shown_at_its_field(client_for, lake):
    given = {"name": "sales.copy", "source_table": "no.such", "version": ""}
    response = client_for("owner").post("/tables/clone/", given)
    assert response.status_code == 400
    assert response.context["form"].errors["source_table"]
    given = {"name": "sales.orders", "source_table": "sales.orders"}
    assert client_for("owner").post("/tables/clone/", given).status_code == 400
    assert not Table.objects.filter(name="sales.copy").exists()
