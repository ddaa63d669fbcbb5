"""The discovery page: a worker searches, a user chooses."""

import pytest

from lakeui.catalog.discovery import search
from lakeui.catalog.models import Discovery, Table
from tests.lakeui.catalog.log_writer import new_table

PATH = "/tables/discover/"
pytestmark = pytest.mark.usefixtures("unreachable_broker")


@pytest.fixture
def root(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    for name in ("orders", "returns", "people"):
        new_table(tmp_path / name)
    return tmp_path


@pytest.fixture
def discovery(client_for, lake, root):
    client_for("owner").post(PATH, {"root": str(root), "match": "", "naming": "{name}"})
    discovery = Discovery.objects.get()
    search(discovery.pk)
    return discovery


def test_a_search_is_shown_while_it_runs_and_when_it_ended(client_for, lake, root):
    answer = client_for("owner").post(PATH, {"root": str(root), "naming": "{name}"})
    discovery = Discovery.objects.get()
    assert answer["Location"] == f"{PATH}?run={discovery.pk}"
    assert 'hx-trigger="every 2s"' in client_for("owner").get(answer["Location"]).content.decode()
    search(discovery.pk)
    body = client_for("owner").get(answer["Location"]).content.decode()
    assert "hx-trigger" not in body.split('id="discovery"')[1].split("</section>")[0]
    assert all(name in body for name in ("orders", "returns", "people"))
    assert Table.objects.count() == 1  # the small lake's


def test_chosen_tables_are_registered_and_then_all(client_for, discovery):
    owner, row = client_for("owner"), discovery.tables.get(name="orders")
    act = f"{PATH}{discovery.pk}/act/"
    owner.post(act, {"act": "register", "chosen": [row.pk]})
    assert Table.objects.filter(name="orders").exists()
    assert not Table.objects.filter(name="people").exists()
    owner.post(act, {"act": "register-all"})
    assert Table.objects.filter(name__in=["orders", "returns", "people"]).count() == 3
    assert "Register all" not in owner.get(f"{PATH}?run={discovery.pk}").content.decode()


def test_a_forbidden_root_is_reported_beside_its_field(client_for, lake, root):
    answer = client_for("owner").post(PATH, {"root": "/etc", "naming": "{name}"})
    assert answer.status_code == 400
    assert "TABLE_ROOTS" in answer.content.decode()


@pytest.mark.parametrize("who", ["operator", "viewer", "stranger"])
def test_others_neither_search_nor_register(client_for, discovery, who):
    assert client_for(who).get(PATH).status_code == 403
    assert client_for(who).post(PATH, {"root": "/", "naming": "{name}"}).status_code == 403
    assert (
        client_for(who).post(f"{PATH}{discovery.pk}/act/", {"act": "register-all"}).status_code
        == 403
    )


def test_rest_shows_and_registers_discovered_tables(client_for, discovery):
    owner = client_for("owner")
    base = f"/api/v1/discoveries/{discovery.pk}"
    shown = owner.get(f"{base}/").json()
    assert (shown["found"], shown["is_complete"], shown["examined"]) == (3, True, 3)
    rows = owner.get(f"{base}/tables/").json()["items"]
    assert [(row["name"], row["table_id"]) for row in rows] == [
        ("orders", None), ("people", None), ("returns", None),
    ]  # fmt: skip
    new = {"ids": [rows[0]["id"]]}
    done = owner.post(f"{base}:register", new, content_type="application/json").json()
    assert (len(done["registered"]), done["refused"], done["left"]) == (1, [], 2)
    Table.objects.filter(pk=done["registered"][0]).update(name="people")
    rest = owner.post(f"{base}:register", {}, content_type="application/json").json()
    assert (len(rest["registered"]), rest["left"]) == (1, 1)
    assert rest["refused"][0]["code"] == "DELTA_TABLE_ALREADY_EXISTS"


def list_new_tables(client):
    items = client.get("/api/v1/attention/").json()["items"]
    return [item["facts"]["new_tables"] for item in items if item["check_name"] == "new_tables"]


@pytest.mark.parametrize("by_rest", [False, True])
def test_the_findings_of_a_repeated_search_need_attention_until_dismissed(
    client_for, lake, root, by_rest
):
    owner = client_for("owner")
    owner.post(PATH, {"root": str(root), "match": "", "naming": "{name}", "every_hours": 2})
    discovery = Discovery.objects.get()
    search(discovery.pk)
    page, shown = owner.get("/attention/").content.decode(), f"{PATH}?run={discovery.pk}"
    assert f"3 new tables below {root}" in page
    assert shown in page
    assert list_new_tables(owner) == [3]
    assert list_new_tables(client_for("viewer")) == []
    assert 'value="dismiss"' in owner.get(shown).content.decode()
    address = f"/api/v1/discoveries/{discovery.pk}"
    assert owner.get(f"{address}/").json()["needing_attention"] == 3
    if by_rest:
        assert (
            owner.post(f"{address}:dismiss", content_type="application/json").json()[
                "needing_attention"
            ]
            == 0
        )
    else:
        owner.post(f"{PATH}{discovery.pk}/act/", {"act": "dismiss"})
    assert list_new_tables(owner) == []
    assert 'value="dismiss"' not in owner.get(shown).content.decode()
