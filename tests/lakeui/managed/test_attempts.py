"""A refused commit of any client becomes a conflict with both sides, or is known to have none."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from engine.errors import VersionTakenError
from lakeui.catalog.managed_tables import open_location
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.roles import Role
from lakeui.conflicts.conflict_detail.rerun import find_later_commit
from lakeui.conflicts.models import Conflict
from lakeui.managed.models import CommitAttempt, ManagedTable
from lakeui.monitoring.metrics import exposition
from tests.lakeui.factories import make_table, make_user
from tests.lakeui.managed.staged import add, lines, make_managed, propose, remove, stage
from tests.lakeui.page_client import PageClient
from workers.managed import tend_catalog

SAIL, SPARK = "sail/0.7.2", "Delta/4.3"
FIRST = lines(1, add("a"), add("b"), isBlindAppend=True)


@pytest.fixture
def user(db):
    return User.objects.create_user("ann")


@pytest.fixture
def table(user):
    managed = make_managed(user)
    propose(managed, stage(open_location(managed), 1, FIRST), user, SPARK)
    return managed


@pytest.fixture
def store(table):
    return open_location(table)


def rewrite(version, old, new, condition=None, **info):
    parameters = {"predicate": f'["{condition}"]'} if condition else {}
    actions = (remove(old), add(new))
    return lines(version, *actions, operation="UPDATE", operationParameters=parameters, **info)


def lose(table, user, version, data):
    """Propose a commit whose version is taken; return its attempt after the next round."""
    commit = stage(open_location(table), version, data)
    with pytest.raises(VersionTakenError):
        propose(table, commit, user, SAIL)
    tend_catalog()
    return CommitAttempt.objects.get(file_name=commit.file_name)


def test_a_loser_that_rewrites_the_winners_file_is_a_conflict_with_both_sides(table, store, user):
    propose(table, stage(store, 2, rewrite(2, "a", "c", "id = 1", userName="nightly")), user, SPARK)
    attempt = lose(table, user, 2, rewrite(2, "a", "d", "id = 2", userName="bob"))
    assert attempt.verdict == CommitAttempt.Verdict.CONFLICT
    assert store.stat(attempt.commit.path) is None
    conflict = Conflict.objects.get()
    assert conflict.table == table.mirror
    assert conflict.transaction == attempt.transaction
    assert (conflict.kind, conflict.rule) == (Conflict.Kind.ABORTED, attempt.rule)
    assert (conflict.current_operation, conflict.winner_operation) == ("UPDATE", "UPDATE")
    assert (conflict.read_version, conflict.winning_version) == (1, 2)
    assert conflict.winner_user_name == "nightly"
    assert conflict.current_user_name == f"pipeline {SAIL}"
    assert [file["path"] for file in conflict.facts["files"]] == ["a"]


def test_a_loser_that_only_adds_files_passes(table, store, user):
    propose(table, stage(store, 2), user, SPARK)
    attempt = lose(table, user, 2, lines(2, add("x"), isBlindAppend=True))
    assert attempt.verdict == CommitAttempt.Verdict.PASSES
    assert not Conflict.objects.exists()


def test_a_loser_whose_reads_are_not_recorded_is_undecidable(table, store, user):
    propose(table, stage(store, 2), user, SPARK)
    attempt = lose(table, user, 2, rewrite(2, "a", "d"))
    assert attempt.verdict == CommitAttempt.Verdict.UNDECIDABLE
    assert not Conflict.objects.exists()


def test_the_same_commit_of_the_client_later_is_its_retry(table, store, user):
    propose(table, stage(store, 2, rewrite(2, "a", "c", "id = 1")), user, SPARK)
    for version in (2, 2):
        attempt = lose(table, user, version, rewrite(version, "a", "d", "id = 2"))
    propose(table, stage(store, 3, rewrite(3, "b", "e", "id = 9")), user, SAIL)
    propose(table, stage(store, 4, rewrite(4, "c", "f", "id = 2")), user, SAIL)
    tend_catalog()
    attempt.refresh_from_db()
    assert attempt.retried_version == 4
    first, second = Conflict.objects.order_by("pk")
    assert first.transaction.run_id == second.transaction.run_id
    assert (first.transaction.attempt, second.transaction.attempt) == (1, 2)
    assert [find_later_commit(conflict).version for conflict in (first, second)] == [4, 4]


def test_another_append_of_the_client_is_no_retry(table, store, user):
    propose(table, stage(store, 2), user, SPARK)
    attempt = lose(table, user, 2, lines(2, add("x"), isBlindAppend=True))
    propose(table, stage(store, 3, lines(3, add("y"), isBlindAppend=True)), user, SAIL)
    tend_catalog()
    attempt.refresh_from_db()
    assert attempt.retried_version is None


def test_the_round_publishes_in_order_and_survives_a_log_with_another_commit(table, store, user):
    other = make_managed(user, "lines")
    propose(other, stage(open_location(other), 1), user)
    propose(table, stage(store, 2), user)
    store.put_if_absent("_delta_log/00000000000000000002.json", b"not the ratified one\n")
    attempt = lose(table, user, 2, lines(2, add("x"), isBlindAppend=True))
    assert attempt.verdict == CommitAttempt.Verdict.PASSES
    published = ManagedTable.objects.order_by("full_name").values_list(
        "published_version", flat=True
    )
    assert [*published] == [1, 1]
    assert store.read("_delta_log/00000000000000000001.json") == FIRST


def test_metrics_count_ratified_refused_and_unpublished_commits(table, store, user):
    propose(table, stage(store, 2), user, SPARK)
    refused = stage(store, 2)
    for _ in range(2):  # one attempt, tried twice
        with pytest.raises(VersionTakenError):
            propose(table, refused, user, SAIL)
    lines_of = exposition().decode().splitlines()
    for line in (
        'lakeui_catalog_commits_total{outcome="ratified",table="lake.sales.orders"} 2.0',
        'lakeui_catalog_commits_total{outcome="refused",table="lake.sales.orders"} 1.0',
        'lakeui_catalog_unpublished_commits{table="lake.sales.orders"} 2.0',
    ):
        assert line in lines_of


def test_pages_show_the_refused_commit_with_its_winner_and_its_retry(table, store, user, client):
    propose(table, stage(store, 2, rewrite(2, "a", "c", "id = 1")), user, SPARK)
    lose(table, user, 2, rewrite(2, "a", "d", "id = 2"))
    propose(table, stage(store, 3, rewrite(3, "c", "e", "id = 2")), user, SAIL)
    tend_catalog()
    refresh_table(table.mirror)
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(f"/conflicts/{Conflict.objects.get().pk}/")
    assert page.status_code == 200
    assert SAIL in page.text
    assert f"/tables/{table.mirror.pk}/history/3/" in page.text
    for name in ("concurrency", "what-if", "history", "eligibility"):
        page = client.get(f"/tables/{table.mirror.pk}/{name}/", follow=True)
        assert page.status_code == 200, name


def test_the_page_of_commits_shows_ratified_and_refused_ones_with_their_clients(
    table, store, user, django_assert_max_num_queries
):
    propose(table, stage(store, 2, rewrite(2, "a", "c", "id = 1")), user, SPARK)
    attempt = lose(table, user, 2, rewrite(2, "a", "d", "id = 2"))
    viewer, stranger = PageClient(), PageClient()
    viewer.force_login(make_user("vera", Role.VIEWER))
    stranger.force_login(make_user("eve"))
    address = reverse("table-commits", args=[table.mirror_id])
    assert stranger.get(address).status_code == 404
    with django_assert_max_num_queries(60) as queries:
        ratified = viewer.get(address).content.decode()
    needed = len(queries)
    for version in (1, 2):
        assert reverse("table-version", args=[table.mirror_id, version]) in ratified
    assert SPARK in ratified
    api = "/api/2.1/unity-catalog/delta/v1/catalogs/lake/schemas/sales/tables/orders"
    assert f"{api}&quot;" in ratified or f"testserver{api}" in ratified
    assert SAIL not in ratified
    refused = viewer.get(f"{address}?show=refused").content.decode()
    assert SAIL in refused
    assert attempt.why in refused
    assert reverse("conflict", args=[Conflict.objects.get().pk]) in refused
    CommitAttempt.objects.update(retried_version=1)
    assert "committed as" in viewer.get(f"{address}?show=refused").content.decode()
    assert address in viewer.get(reverse("table", args=[table.mirror_id])).content.decode()
    for version in range(3, 8):
        propose(table, stage(store, version, lines(version)), user, SPARK)
    with django_assert_max_num_queries(needed):
        viewer.get(address)
    plain = reverse("table-commits", args=[make_table("sales.plain").pk])
    assert viewer.get(plain).status_code == 404
    assert viewer.get(f"{address}?show=all").status_code == 404
