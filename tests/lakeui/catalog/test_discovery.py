"""A search finds every table below a root, in bounded time, even if a worker dies meanwhile."""

import json
import os
import shutil
from datetime import timedelta
from io import StringIO

import boto3
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from engine.errors import EngineError, StorageError
from engine.storage.memory import MemoryStore
from engine.storage.uri import open_store
from lakeui.catalog import discovery as discoveries
from lakeui.catalog.discovery import (
    dismiss,
    go_on,
    iter_directories,
    register_found,
    repeat_due,
    request_discovery,
    search,
    wake_all,
)
from lakeui.catalog.models import Discovery, Table
from lakeui.catalog.registration import name_place, request_registration
from lakeui.conflicts.unregistration import unregister_table
from lakeui.monitoring.alerting.watch import AlertRound
from lakeui.monitoring.attention_items import AttentionRequest
from lakeui.monitoring.attention_queries import find_new_tables
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.mutes import ActiveMutes
from lakeui.monitoring.recent_conflicts import ConflictsOfDay, ConflictSums
from tests.engine.storage.conftest import s3_options  # noqa: F401 - a fixture
from tests.lakeui.catalog.log_writer import new_table
from tests.ordinary_user import ordinary_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_broker")]
NAMING = "{path}"


@pytest.fixture
def lake(tmp_path, settings):
    """Create three tables, and many files and directories that are not tables."""
    settings.TABLE_ROOTS = [str(tmp_path)]
    root = tmp_path / "lake"
    for place in ("sales/orders", "sales/2026/returns", "crm"):
        new_table(root / place)
    for place in ("_trash/old", ".hidden/old", "sales/day=1/old", "crm/inner"):
        new_table(root / place)  # inside what is not entered
    (root / "empty/_delta_log").mkdir(parents=True)
    (root / "sales/readme.txt").write_text("no directory")
    (root / "loop").symlink_to(root)
    return root


def list_below(root, after=""):
    return list(iter_directories(open_store(str(root)), after))


def tables(directories):
    return [one.path for one in directories if one.is_table]


def list_found(discovery):
    return list(discovery.tables.values_list("name", flat=True))


def request_search(root, match="", naming=NAMING):
    return request_discovery(str(root), match, naming, None)


def refresh(discovery):
    discovery.refresh_from_db()
    return discovery


def test_tables_are_found_but_not_those_inside_of_others(lake):
    directories = list_below(lake)
    assert tables(directories) == ["crm", "sales/2026/returns", "sales/orders"]
    assert [one.path for one in directories] == [
        "crm", "empty", "sales", "sales/2026", "sales/2026/returns", "sales/orders",
    ]  # fmt: skip


def test_a_root_that_is_a_table_is_the_only_result(lake):
    assert tables(list_below(lake / "crm")) == [""]


def test_a_search_continues_after_any_directory(lake):
    whole = list_below(lake)
    for place, directory in enumerate(whole):
        assert list_below(lake, directory.path) == whole[place + 1 :]
    assert tables(list_below(lake, "sales/2026/gone meanwhile")) == [
        "sales/2026/returns",
        "sales/orders",
    ]


def test_an_unreadable_directory_is_reported_and_skipped(lake):
    for directory in (lake, *lake.rglob("*/")):
        directory.chmod(0o755)
    (lake / "empty").chmod(0)
    try:
        with ordinary_user(lake):
            directories = list_below(lake)
    finally:
        (lake / "empty").chmod(0o755)
    assert [one.path for one in directories if one.problem] == ["empty"]
    assert len(tables(directories)) == 3


def test_a_search_continues_after_an_unreadable_directory(lake, settings, monkeypatch):
    is_table = discoveries._is_table

    def fail_in_empty(store, path):
        if path.startswith("empty"):
            msg = "Could not list it."
            raise StorageError(msg, "Check the rights.")
        return is_table(store, path)

    monkeypatch.setattr(discoveries, "_is_table", fail_in_empty)
    settings.DISCOVER_MAX_DIRECTORIES = 2
    discovery = request_search(lake)
    for _ in range(4):
        search(discovery.pk)
        go_on(refresh(discovery))
    assert list_found(discovery) == ["crm", "sales.2026.returns", "sales.orders"]


def test_a_directory_whose_name_is_not_in_utf8_is_reported_and_skipped(lake, settings):
    (lake / os.fsdecode(b"d\xff") / "_delta_log").mkdir(parents=True)
    settings.DISCOVER_MAX_DIRECTORIES = 2
    discovery = request_search(lake)
    for _ in range(5):
        search(discovery.pk)
        go_on(refresh(discovery))
    assert list_found(discovery) == ["crm", "sales.2026.returns", "sales.orders"]
    assert discovery.unreadable == 1
    told = [one.problem for one in list_below(lake) if one.problem]
    assert told == ["The name of the directory d\N{REPLACEMENT CHARACTER} is not valid UTF-8."]


def test_directories_of_a_store_in_memory_are_found():
    store = MemoryStore("memory://discovery")
    for path in ("a/_delta_log/0.json", "b/c/_delta_log/0.json", "b/d/file"):
        store.put(path, b"x")
    directories = list(iter_directories(store))
    assert [(one.path, one.is_table) for one in directories] == [
        ("a", True), ("b", False), ("b/c", True), ("b/d", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "naming", "name"),
    [
        ("sales/orders", "{path}", "sales.orders"),
        ("sales/orders", "lake.{name}", "lake.orders"),
        ("eu/sales/orders", "{parent}_{name}", "sales_orders"),
        ("orders", "{parent}.{name}", "lake.orders"),
        ("", "{path}", "lake"),
        ("sales 2026/ré-turns", "{path}", "sales_2026.ré-turns"),
    ],
)
def test_a_table_has_one_name_whether_it_is_registered_or_found_below_the_root(
    settings, path, naming, name
):
    settings.TABLE_ROOTS = ["/data", "/data/lake"]
    place = f"/data/lake/{path}".rstrip("/")
    assert name_place(place, naming) == name_place(place, naming, "/data/lake") == name


def test_a_worker_searches_and_chosen_tables_are_registered(lake):
    discovery = request_search(lake)
    assert search(discovery.pk) is False
    assert (refresh(discovery).is_complete, discovery.examined) == (True, 6)
    assert list_found(discovery) == ["crm", "sales.2026.returns", "sales.orders"]
    (row,) = discovery.tables.filter(name="sales.orders")
    registered = register_found([(row.place, row.name), (str(lake / "empty"), "x")], None)
    assert [table.name for table in registered.tables] == ["sales.orders"]
    assert list(registered.refused) == [str(lake / "empty")]
    assert Table.objects.get().uri == str(lake / "sales/orders")


def test_only_paths_that_match_are_found(lake):
    discovery = request_search(lake, "sales/*", "{name}")
    search(discovery.pk)
    assert list_found(discovery) == ["returns", "orders"]


def test_a_search_pauses_at_its_limit_and_continues(lake, settings):
    settings.DISCOVER_MAX_DIRECTORIES = 4
    discovery = request_search(lake)
    assert search(discovery.pk) is False
    assert (refresh(discovery).is_complete, discovery.cursor) == (False, "sales/2026")
    assert search(discovery.pk) is False  # it rests
    go_on(discovery)
    search(discovery.pk)
    assert refresh(discovery).is_complete
    assert list_found(discovery) == ["crm", "sales.2026.returns", "sales.orders"]


def test_a_search_is_handed_on_in_slices(lake):
    discovery, slices = request_search(lake), 1
    while search(discovery.pk, seconds=0):
        slices += 1
    assert slices > 3
    assert refresh(discovery).is_complete
    assert len(list_found(discovery)) == 3


@pytest.mark.parametrize("ahead", [-2, 2], ids=["silent", "by a clock ahead"])
def test_the_next_worker_continues_from_a_dead_workers_notes(lake, monkeypatch, ahead):
    discovery = request_search(lake)
    search(discovery.pk, seconds=0)
    Discovery.objects.update(seen_at=discovery.requested_at)  # a worker took it, and died
    assert search(discovery.pk) is False
    assert refresh(discovery).finished_at is None
    Discovery.objects.update(seen_at=discovery.requested_at + ahead * discoveries.PATIENCE)
    woken = []
    monkeypatch.setattr(discoveries, "wake", woken.append)
    wake_all()
    assert woken == [discovery.pk]
    search(discovery.pk)
    assert refresh(discovery).is_complete
    assert discovery.examined == 6


def test_ten_thousand_directories_without_a_table_end_in_bounded_time(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    for number in range(10_000):
        (tmp_path / f"{number % 100:02}/{number:05}").mkdir(parents=True)
    discovery = request_search(tmp_path)
    while search(discovery.pk):
        pass
    assert (refresh(discovery).is_complete, discovery.examined, list_found(discovery)) == (
        True,
        10_100,
        [],
    )


def test_a_forbidden_or_missing_root_is_reported(lake, settings):
    for root, naming in (
        ("/etc", NAMING),
        ("", NAMING),
        (str(lake), "orders"),
        ("ftp://x/", NAMING),
    ):
        with pytest.raises(EngineError):
            request_discovery(root, "", naming, None)
    discovery = request_search(lake)
    settings.TABLE_ROOTS = ["/elsewhere"]
    assert search(discovery.pk) is False
    assert "TABLE_ROOTS" in refresh(discovery).problem
    assert discovery.finished_at is not None


def test_only_the_latest_searches_are_kept(lake):
    for _ in range(25):
        request_search(lake)
    assert Discovery.objects.count() == discoveries.MOST_KEPT


def test_an_object_store_is_searched(s3_options, settings):  # noqa: F811
    client = boto3.client(
        "s3", endpoint_url=s3_options["aws_endpoint_url"], aws_access_key_id="tester",
        aws_secret_access_key="tester", region_name="us-east-1",
    )  # fmt: skip
    for key in (
        "a/t1/_delta_log/0.json",
        "b/_delta_log/0.json",
        "b/x/_delta_log/0.json",
        "c/d/file",
    ):
        client.put_object(Bucket="lake", Key=f"found/{key}", Body=b"{}")
    for number in range(1100):  # more than a page of a listing, before the log is named
        client.put_object(Bucket="lake", Key=f"found/a/t1/{number:04}.parquet", Body=b"")
    settings.TABLE_ROOTS = ["s3://lake"]
    settings.TABLE_STORAGE_OPTIONS = {"s3://lake": s3_options}
    discovery = request_search("s3://lake/found")
    while search(discovery.pk):
        pass
    assert list_found(discovery) == ["a.t1", "b"]
    assert refresh(discovery).examined == 5
    assert discovery.tables.first().place == "s3://lake/found/a/t1"


def output(*arguments):
    out = StringIO()
    call_command("discover", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_lists_registers_and_says_how_to_go_on(lake):
    text = output(str(lake))
    assert "3 tables in 6 directories." in text
    assert not Table.objects.exists()
    assert "1 table in 1 directory." in output(str(lake), "--limit", "1")
    first = json.loads(output(str(lake), "--limit", "3", "-ojson"))
    assert (first["after"], len(first["tables"])) == ("sales", 1)
    rest = json.loads(output(str(lake), "--after", "sales", "--register", "-ojson"))
    assert (rest["after"], [row["state"] for row in rest["tables"]]) == (None, ["registered"] * 2)
    assert {*Table.objects.values_list("name", flat=True)} == {"sales.orders", "sales.2026.returns"}
    with pytest.raises(CommandError, match="TABLE_ROOTS"):
        output("/etc")


def test_the_command_prints_refusals(lake):
    new_table(lake / "eu/orders")
    text = output(str(lake), "--naming", "{name}", "--register")
    assert "refused: The name orders or the location" in text
    assert Table.objects.count() == 3


# Again and again


def request_repeated_search(lake, by=None, *, registers=False):
    return request_discovery(str(lake), "", NAMING, by, every_hours=6, registers=registers)


def test_a_search_is_repeated_when_its_hours_are_over_and_finds_new_tables(lake):
    discovery = request_repeated_search(lake)
    search(discovery.pk)
    ended = refresh(discovery).finished_at
    assert repeat_due(ended + timedelta(hours=5)) == 0
    new_table(lake / "late/one")
    shutil.rmtree(lake / "crm")
    assert repeat_due(ended + timedelta(hours=6)) == 1
    assert repeat_due(ended + timedelta(hours=6)) == 0
    search(discovery.pk)
    assert refresh(discovery).is_complete
    assert list_found(discovery) == ["late.one", "sales.2026.returns", "sales.orders"]
    assert not Table.objects.exists()


def test_a_repeated_search_that_pauses_at_its_limit_continues_at_once(lake, settings):
    settings.DISCOVER_MAX_DIRECTORIES = 4
    discovery = request_repeated_search(lake)
    search(discovery.pk)
    assert not refresh(discovery).is_complete
    assert repeat_due(discovery.finished_at) == 1
    search(discovery.pk)
    assert refresh(discovery).is_complete
    assert len(list_found(discovery)) == 3


def test_a_round_of_a_repeated_search_is_bounded(lake, settings, monkeypatch):
    """After the limit, the search continues when its interval is over."""
    settings.DISCOVER_MAX_DIRECTORIES = 1
    monkeypatch.setattr(discoveries, "MOST_BOUNDS", 2)
    discovery = request_repeated_search(lake)
    search(discovery.pk)
    assert repeat_due(refresh(discovery).finished_at) == 1
    search(discovery.pk)
    assert repeat_due(refresh(discovery).finished_at) == 0
    assert repeat_due(discovery.finished_at + timedelta(hours=6)) == 1


def test_a_repeated_search_of_a_missing_root_waits_for_its_hours(lake):
    discovery = request_repeated_search(lake)
    shutil.rmtree(lake)
    search(discovery.pk)
    assert repeat_due(refresh(discovery).finished_at) == 0


def test_found_tables_are_registered_as_their_requester_as_long_as_they_may(
    lake, django_user_model
):
    ada = django_user_model.objects.create_superuser("ada")
    Table.objects.create(name="sales.orders", uri="/elsewhere")  # the name is taken
    discovery = request_repeated_search(lake, ada, registers=True)
    search(discovery.pk)
    names = set(Table.objects.filter(registered_by=ada).values_list("name", flat=True))
    assert names == {"crm", "sales.2026.returns"}
    assert refresh(discovery).problem.startswith("1 of 3 tables were not registered.")
    new_table(lake / "late/one")
    django_user_model.objects.update(is_superuser=False)
    repeat_due(discovery.finished_at + timedelta(hours=6))
    search(discovery.pk)
    assert "may no longer register tables" in refresh(discovery).problem
    assert "late.one" in list_found(discovery)
    assert not Table.objects.filter(name="late.one").exists()


def test_an_unregistered_table_stays_off_the_list(lake, django_user_model):
    ada = django_user_model.objects.create_superuser("ada")
    discovery = request_repeated_search(lake, ada, registers=True)
    search(discovery.pk)
    unregister_table(Table.objects.get(name="crm"), ada, "nobody needs it")
    new_table(lake / "late/one")
    repeat_due(refresh(discovery).finished_at + timedelta(hours=6))
    search(discovery.pk)
    names = set(Table.objects.values_list("name", flat=True))
    assert names == {"late.one", "sales.2026.returns", "sales.orders"}
    assert "crm" in list_found(discovery)
    [left] = discoveries.not_registered(discovery)
    assert register_found([(left.place, left.name)], ada).tables[0].name == "crm"


def test_a_search_that_is_deleted_meanwhile_ends(lake, django_user_model, monkeypatch):
    discovery = request_repeated_search(
        lake, django_user_model.objects.create_superuser("ada"), registers=True
    )
    monkeypatch.setattr(discoveries, "matches", lambda *_: Discovery.objects.all().delete())
    assert not search(discovery.pk)
    connection.check_constraints()
    assert not Table.objects.exists()


def test_a_place_that_is_too_long_for_the_list_is_reported_and_skipped(lake):
    deep = lake / "deep"
    for letter in "abcdefghi":
        deep /= letter * 250
    new_table(deep)
    discovery = request_search(lake)
    assert not search(discovery.pk)
    assert refresh(discovery).is_complete
    assert discovery.problem == "The path of a table has more than 2000 characters."
    assert list_found(discovery) == ["crm", "sales.2026.returns", "sales.orders"]
    with pytest.raises(EngineError, match="more than 2000"):
        request_registration(str(deep))


def test_repeated_searches_are_bounded_and_outlast_others(lake, settings):
    for _ in range(discoveries.MOST_REPEATED):
        request_repeated_search(lake)
    with pytest.raises(EngineError, match="repeated searches already exist"):
        request_repeated_search(lake)
    for _ in range(25):
        request_search(lake)
    assert Discovery.objects.filter(every_hours=6).count() == discoveries.MOST_REPEATED
    settings.READ_ONLY = True
    Discovery.objects.update(finished_at=discoveries.timezone.now(), is_complete=True)
    assert repeat_due(discoveries.timezone.now() + timedelta(days=9)) == 0


def round_of(discovery):
    Discovery.objects.filter(pk=discovery.pk).update(
        finished_at=timezone.now() - timedelta(hours=2)
    )
    assert repeat_due(timezone.now()) == 1
    assert search(discovery.pk) is False


def list_attention(user):
    asked = AttentionRequest(
        user, timezone.now(), ConflictsOfDay(timezone.now(), ConflictSums()), ActiveMutes(), 50
    )
    return [(item.facts["root"], item.facts["new_tables"]) for item in find_new_tables(asked, 0)[0]]


def test_the_findings_of_a_repeated_search_are_reported_until_registered_or_dismissed(lake):
    admin = User(username="root", is_superuser=True)
    discovery = request_discovery(str(lake), "", NAMING, None, every_hours=1)
    search(discovery.pk)
    assert list_attention(admin) == [(str(lake), 3)]
    assert list_attention(User.objects.create(username="nobody")) == []
    register_found([(str(lake / "crm"), "crm")], None)
    assert list_attention(admin) == [(str(lake), 2)], "what is registered is told no more"
    unregister_table(Table.objects.get(), None)
    assert list_attention(admin) == [(str(lake), 2)], "nor is what was taken off"
    (finding,) = AlertRound(timezone.now()).findings(Condition.NEW_TABLES, None)
    assert finding.title == f"2 new tables below {lake}"
    assert dismiss(discovery) == 2
    assert list_attention(admin) == []
    new_table(lake / "late")
    round_of(discovery)
    assert list_attention(admin) == [(str(lake), 1)], "what was dismissed stays so"
    Discovery.objects.filter(pk=discovery.pk).update(
        finished_at=timezone.now() - timedelta(hours=2)
    )
    repeat_due(timezone.now())
    assert list_attention(admin) == [(str(lake), 1)], "while a round is under way, too"
    shutil.rmtree(lake / "late")
    search(discovery.pk)
    assert list_attention(admin) == [], "what is gone is told no more"


def test_a_search_that_registers_or_is_not_repeated_needs_no_attention(lake):
    admin = User.objects.create_superuser("root")
    once = request_discovery(str(lake), "sales/*", NAMING, admin)
    again = request_discovery(str(lake), "", NAMING, admin, every_hours=1, registers=True)
    for discovery in (once, again):
        search(discovery.pk)
    assert list_attention(admin) == []
    assert Table.objects.count() == 3
