"""A table's own pages: attention, growth, and the layout of its files."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.growth import growth
from lakeui.catalog.models import LiveFile
from tests.lakeui.factories import make_commit, make_job, make_table

MIB = 1024**2


def create_grown_table(*changes, size=1000, files=10):
    """Create a table after commits of (version, bytes added, removed, files added, removed)."""
    table = make_table(version=changes[-1][0], size_bytes=size, file_count=files)
    for version, added, removed, files_added, files_removed in changes:
        make_commit(
            table, version, "MERGE", bytes_added=added, bytes_removed=removed,
            files_added=files_added, files_removed=files_removed,
        )  # fmt: skip
    return table


def test_growth_is_computed_back_from_the_present_size(db):
    table = create_grown_table((1, 500, 0, 5, 0), (2, 300, 100, 4, 1), (3, 400, 0, 2, 0))
    points = growth(table).points
    assert [(p.version, p.size_bytes, p.file_count) for p in points] == [
        (1, 400, 5), (2, 600, 8), (3, 1000, 10),
    ]  # fmt: skip


def test_growth_ends_where_a_version_is_missing(db):
    table = create_grown_table((1, 500, 0, 5, 0), (3, 300, 0, 3, 0), (4, 1, 0, 1, 0))
    assert [p.version for p in growth(table).points] == [3, 4]


def test_growth_is_estimated_where_a_removed_file_bears_no_size(db):
    assert not growth(create_grown_table((1, 500, 5, 5, 1))).is_estimated
    table = make_table("other", version=1)
    make_commit(table, 1, files_removed=2, bytes_removed=0)
    assert growth(table).is_estimated


def test_a_thousand_versions_are_drawn_as_a_few_points_from_the_first_to_the_last(db):
    table = create_grown_table(*((v, 1, 0, 1, 0) for v in range(1, 201)), size=500, files=500)
    for commit in table.commits.all():
        commit.committed_at = timezone.now() - timedelta(minutes=300 - commit.version)
        commit.save(update_fields=["committed_at"])
    points = growth(table)
    assert points.version_count == 200
    assert len(points.points) <= 60
    assert (points.points[0].version, points.points[-1].version) == (1, 200)
    assert (points.grown_bytes, points.grown_files) == (199, 199)


def test_the_summary_names_the_tables_needs_and_due_chores(client_for, lake):
    table = lake.table
    table.file_count, table.small_file_count, table.dead_file_count = 40, 30, 4
    table.dead_bytes = table.vacuum_bytes = table.size_bytes
    table.deleted_row_count, table.vectored_file_count, table.row_count = 5, 1, 995
    table.save()
    body = client_for("operator").get(f"/tables/{table.pk}/").content.decode()
    needs = body.partition('id="chores"')[2].partition("</section>")[0]
    assert "30 of 40 files under" in needs
    assert "5 rows marked deleted, still stored" in needs
    assert "0.500 % of the rows stored" in needs
    assert needs.count(">due<") == 2
    assert f"sql=OPTIMIZE%20{table.name}" in needs
    assert "REORG%20TABLE%20sales.orders%20APPLY%20%28PURGE%29" in needs


def test_people_who_may_not_run_jobs_get_the_statement_instead(client_for, lake):
    lake.table.small_file_count = 5
    lake.table.save()
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/files/").content.decode()
    assert "<code>OPTIMIZE sales.orders</code>" in body
    assert "sql=OPTIMIZE" not in body


def test_files_since_the_last_optimize_are_not_clustered_yet(client_for, lake):
    optimized = timezone.now() - timedelta(hours=1)
    make_commit(lake.table, 4, "OPTIMIZE", committed_at=optimized)
    for number, minutes in enumerate((90, 30, 20)):
        LiveFile.objects.create(
            table=lake.table, path=f"new-{number}", size_bytes=MIB,
            modified_at=timezone.now() - timedelta(minutes=minutes),
        )  # fmt: skip
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/files/").content.decode()
    assert "2 files written since the last OPTIMIZE" in body
    assert "2 files, <span" in body


def test_a_bar_of_the_histogram_leads_to_its_files(client_for, lake):
    LiveFile.objects.create(table=lake.table, path="large.parquet", size_bytes=100 * MIB)
    client, address = client_for("viewer"), f"/tables/{lake.table.pk}/files/"
    body = client.get(address).content.decode()
    links = re.findall(r'class="bucket" href="(\?[^"#]+)#files"', body)
    assert len(links) == 2
    shown = [client.get(address + link.replace("&amp;", "&")).content.decode() for link in links]
    listed = ["large.parquet" in page.partition('id="files"')[2] for page in shown]
    assert listed == [False, True]


def test_partitions_show_their_skew_and_link_to_the_versions_that_touched_them(client_for, lake):
    lake.table.partition_columns = ["day"]
    lake.table.clustering_columns = []
    lake.table.save()
    LiveFile.objects.all().delete()
    for day, size in (("1", 8), ("2", 2), ("3", 1)):
        LiveFile.objects.create(
            table=lake.table, path=day, size_bytes=size * MIB, partition_values={"day": day}
        )
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/files/").content.decode()
    assert "the largest holds 4.0 times the median" in body
    assert "history/?partition=day%3D1" in body


@pytest.mark.parametrize("kind", ["optimize", "delete"])
def test_the_summary_lists_the_latest_jobs(client_for, lake, kind):
    job = make_job(lake.table, kind)
    assert (
        f"/jobs/{job.pk}/" in client_for("viewer").get(f"/tables/{lake.table.pk}/").content.decode()
    )
