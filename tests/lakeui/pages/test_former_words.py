"""How conflicts ended, in the words of version 0.1: records are renamed, filters still take them."""

from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.utils import timezone

from lakeui.conflicts.models import Conflict, ConflictDay
from lakeui.monitoring.checks import AttentionCheck
from lakeui.monitoring.models import Mute
from tests.lakeui.factories import make_conflict, make_table

pytestmark = pytest.mark.django_db


def test_records_of_the_former_words_are_renamed_and_renamed_back():
    table = make_table()
    conflicts = [make_conflict(table) for _ in range(3)]
    Conflict.objects.filter(pk=conflicts[0].pk).update(kind="escaped")
    Conflict.objects.filter(pk=conflicts[1].pk).update(kind="absorbed")
    Conflict.objects.filter(pk=conflicts[2].pk).update(kind="reported")
    ConflictDay.objects.update(kind="escaped")
    migration = import_module("lakeui.conflicts.migrations.0011_endings_in_plain_words")
    migration.forwards(apps, None)
    kinds = list(Conflict.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds == ["aborted", "resolved", "reported"]
    assert {day.kind for day in ConflictDay.objects.all()} == {"aborted"}
    migration.backwards(apps, None)
    kinds = list(Conflict.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds == ["escaped", "absorbed", "reported"]


def test_a_mute_of_the_former_check_stays_one():
    Mute.objects.create(about="escaped", until=timezone.now() + timedelta(days=1))
    import_module("lakeui.monitoring.migrations.0003_aborted_writes").forwards(apps, None)
    assert AttentionCheck(Mute.objects.get().about) is AttentionCheck.ABORTED


@pytest.mark.parametrize(("word", "former"), [("aborted", "escaped"), ("resolved", "absorbed")])
def test_the_filter_of_conflicts_takes_the_former_words_too(client_for, word, former):
    table = make_table()
    for kind in ("aborted", "resolved", "reported"):
        make_conflict(table, kind=kind)
    answers = [
        client_for("viewer").get("/api/v1/conflicts/", {"kind": kind}).json()["items"]
        for kind in (word, former)
    ]
    assert answers[0] == answers[1]
    assert [conflict["kind"] for conflict in answers[0]] == [word]


@pytest.mark.parametrize("address", ["/tables/{}/concurrency/", "/api/v1/tables/{}/concurrency/"])
def test_the_filter_of_the_swim_lane_takes_the_former_word_too(client_for, address):
    path = address.format(make_table().pk)
    assert client_for("viewer").get(path, {"outcome": "absorbed"}).status_code == 200
    assert client_for("viewer").get(path, {"outcome": "resolved"}).status_code == 200
    assert client_for("viewer").get(path, {"outcome": "no such"}).status_code in (404, 422)


def test_a_check_is_muted_by_its_former_name_too(client_for):
    body = {
        "check_name": "escaped",
        "until": (timezone.now() + timedelta(days=1)).isoformat(),
        "reason": "known",
    }
    answer = client_for("owner").post(
        "/api/v1/attention/mutes/", body, content_type="application/json"
    )
    assert answer.status_code in (200, 201), answer.content
    assert Mute.objects.get().about == "aborted"
