"""Unity Catalog's REST API, as its clients call it in both generations."""

import json
import threading
import uuid
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.db import connections
from django.test import Client

from lakeui.api.models import ApiToken
from lakeui.catalog.models import TableGrant
from lakeui.catalog.roles import Role
from lakeui.managed.models import CommitAttempt, ManagedTable, RatifiedVersion
from tests.lakeui.managed.staged import SCHEMA, START_MS, add, first_commit, lines, set_property

BASE = "/api/2.1/unity-catalog"
TABLE = f"{BASE}/delta/v1/catalogs/lake/schemas/sales/tables"


class UnityClient:
    """A client program with a person's token."""

    def __init__(self, user, role=Role.ADMIN, agent="sail/0.7.2"):
        _, self._token = ApiToken.objects.create(
            user=user, name="ci", role=role, expiry=timedelta(days=1)
        )
        self._agent = agent

    def send(self, method, address, body=None):
        return self.send_text(method, address, "" if body is None else json.dumps(body))

    def send_text(self, method, address, text):
        return Client().generic(
            method,
            address if address.startswith("/") else f"{BASE}/{address}",
            text,
            "application/json",
            headers={"Authorization": f"Bearer {self._token}", "User-Agent": self._agent},
        )

    def call(self, method, address, body=None, status=200):
        response = self.send(method, address, body)
        assert response.status_code == status, response.content
        return response.json() if response.content else None

    def create_table(self, name="orders"):
        """Create a managed table as Sail does; return it."""
        names = {"catalog_name": "lake", "schema_name": "sales", "name": name}
        staged = self.call("POST", "staging-tables", names)
        write(staged["staging_location"], "00000000000000000000.json", first_commit(staged["id"]))
        body = {
            **names,
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "storage_location": staged["staging_location"],
            "columns": [],
        }
        return self.call("POST", "tables", body)

    def commit(self, table, info, status=200, **more):
        return self.call("POST", "delta/preview/commits", proposal(table, info) | more, status)

    def commits(self, table, status=200, **fields):
        body = {"table_id": table["table_id"], "table_uri": table["storage_location"]}
        return self.call(
            "GET", "delta/preview/commits", body | {"start_version": 0} | fields, status
        )


def proposal(table, info):
    uri = table["storage_location"]
    return {"table_id": table["table_id"], "table_uri": uri, "commit_info": info}


def place_of(url):
    return Path(unquote(urlsplit(url).path)) / "_delta_log"


def write(url, name, data):
    path = place_of(url) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def stage(table, version, data=None, **facts):
    """Write a staged commit; return its `commit_info`."""
    data = lines(version, add(f"{uuid.uuid4()}.parquet")) if data is None else data
    name = f"{version:020}.{uuid.uuid4()}.json"
    write(table["storage_location"], f"_staged_commits/{name}", data)
    info = {
        "version": version,
        "timestamp": START_MS + version,
        "file_name": name,
        "file_size": len(data),
        "file_modification_timestamp": START_MS,
    }
    return info | facts


def person(name, role=None):
    user = User.objects.create_user(name)
    if role:
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def open_catalog(agent="sail/0.7.2"):
    """Return an admin's client, in a catalog with one schema."""
    client = UnityClient(person("root", "admin"), agent=agent)
    client.call("POST", "catalogs", {"name": "lake"})
    client.call("POST", "schemas", {"catalog_name": "lake", "name": "sales"})
    return client


@pytest.fixture
def client(db):
    return open_catalog()


def test_the_preview_creates_a_table_and_ratifies_its_commits(client):
    table = client.create_table()
    assert table["columns"][0]["type_text"] == "bigint"
    assert table["columns"][0]["type_name"] == "LONG"
    assert table["properties"]["delta.feature.catalogManaged"] == "supported"
    assert client.call("GET", "tables/lake.sales.orders") == table
    assert client.commits(table) == {"commits": [], "latest_table_version": 0}
    infos = [stage(table, version) for version in (1, 2)]
    for info in infos:
        assert client.commit(table, info) == {}
        assert client.commit(table, info) == {}  # its answer was lost
    assert client.commits(table) == {"commits": infos[::-1], "latest_table_version": 2}
    assert client.commits(table, start_version=1, end_version=1)["commits"] == infos[:1]
    for info in infos:
        staged = place_of(table["storage_location"]) / "_staged_commits" / info["file_name"]
        write(table["storage_location"], f"{info['version']:020}.json", staged.read_bytes())
    client.commit(table, stage(table, 3), latest_backfilled_version=2)
    assert ManagedTable.objects.get().published_version == 2
    assert len(client.commits(table)["commits"]) == 3  # names stay after publication
    assert client.call("GET", "tables?catalog_name=lake&schema_name=sales")["tables"][0][
        "table_id"
    ] == str(table["table_id"])


def test_v1_creates_a_table_and_ratifies_its_commits(client):
    assert client.call("GET", "delta/v1/config?catalog=lake&protocol-versions=1.0")["endpoints"]
    staged = client.call("POST", TABLE.replace("/tables", "/staging-tables"), {"name": "orders"})
    write(staged["location"], "00000000000000000000.json", first_commit(staged["table-id"]))
    body = {
        "name": "orders",
        "location": staged["location"],
        "table-type": "MANAGED",
        "columns": SCHEMA,
        "protocol": staged["required-protocol"],
        "properties": staged["required-properties"],
        "last-commit-timestamp-ms": START_MS,
    }
    loaded = client.call("POST", TABLE, body)
    assert loaded["metadata"]["columns"] == SCHEMA
    assert (loaded["commits"], loaded["latest-table-version"]) == ([], 0)
    table = {"storage_location": staged["location"], "table_id": staged["table-id"]}
    info = stage(table, 1)
    commit = {name.replace("_", "-"): value for name, value in info.items()}
    requirement = {"type": "assert-table-uuid", "uuid": staged["table-id"]}
    update = {
        "requirements": [requirement],
        "updates": [{"action": "add-commit", "commit": commit}],
    }
    for _ in range(2):
        answer = client.call("POST", f"{TABLE}/orders", update)
        assert (answer["commits"], answer["latest-table-version"]) == ([commit], 1)
    assert client.commits(table)["commits"] == [info]  # both generations, one table
    client.call("HEAD", f"{TABLE}/orders", status=204)
    other = {**update, "requirements": [requirement | {"uuid": str(uuid.uuid4())}]}
    error = client.call("POST", f"{TABLE}/orders", other, 409)["error"]
    assert (error["type"], error["code"]) == ("UpdateRequirementConflictException", 409)
    loser = {name.replace("_", "-"): value for name, value in stage(table, 1).items()}
    update["updates"] = [{"action": "add-commit", "commit": loser}]
    error = client.call("POST", f"{TABLE}/orders", update, 409)["error"]
    assert error["type"] == "CommitVersionConflictException"
    client.call("DELETE", f"{TABLE}/orders", status=204)
    error = client.call("GET", f"{TABLE}/orders", status=404)["error"]
    assert error["type"] == "NoSuchTableException"


def test_a_refused_commit_is_on_record_with_its_client(client):
    table = client.create_table()
    client.commit(table, stage(table, 1))
    loser = stage(table, 1)
    error = client.commit(table, loser, 409)
    assert error["error_code"] == "COMMIT_VERSION_CONFLICT"
    attempt = CommitAttempt.objects.get()
    assert attempt.file_name == loser["file_name"]
    assert (attempt.client, attempt.token_name, attempt.user.username) == (
        "sail/0.7.2", "ci", "root",
    )  # fmt: skip


def test_a_client_that_does_not_publish_is_stopped(client, settings):
    settings.CATALOG_MAX_UNPUBLISHED = 1
    table = client.create_table()
    client.commit(table, stage(table, 1))
    assert client.commit(table, stage(table, 2), 429)["error_code"] == "RESOURCE_EXHAUSTED"
    lie = client.commit(table, stage(table, 2), 400, latest_backfilled_version=1)
    assert lie["error_code"] == "INVALID_ARGUMENT"


HOSTILE = [
    ("gap", lambda table: stage(table, 3)),
    ("outside", lambda table: stage(table, 1) | {"file_name": "../../x.json"}),
    ("absolute", lambda table: stage(table, 1) | {"file_name": "/etc/passwd"}),
    ("pattern", lambda table: stage(table, 1) | {"file_name": "1.json"}),
    ("missing", lambda table: stage(table, 1) | {"file_name": f"{1:020}.{uuid.uuid4()}.json"}),
    ("truncated", lambda table: stage(table, 1, file_size=10_000)),
    ("not JSON", lambda table: stage(table, 1, b"no\n")),
    ("other time", lambda table: stage(table, 1, timestamp=7)),
    ("negative", lambda table: stage(table, 1, file_size=-1)),
    ("huge", lambda table: stage(table, 1, file_size=2**70)),
    ("text", lambda table: stage(table, 1) | {"version": "1"}),
    ("boolean", lambda table: stage(table, 1) | {"version": True}),
    ("list", lambda _: [1]),
    ("empty", lambda _: {}),
]


def test_bad_input_is_refused_by_its_class_and_ratifies_nothing(client):
    table = client.create_table()
    for name, make in HOSTILE:
        error = client.commit(table, make(table), 400)
        assert error["error_code"] == "INVALID_ARGUMENT", name
        assert error["message"]
    info = stage(table, 1)
    for changed, code in (
        ({"table_id": str(uuid.uuid4())}, "TABLE_NOT_FOUND"),
        ({"table_id": "no id"}, "TABLE_NOT_FOUND"),
        ({"table_uri": "file:///elsewhere"}, "INVALID_ARGUMENT"),
    ):
        status = 404 if code == "TABLE_NOT_FOUND" else 400
        assert client.commit(table | changed, info, status, **changed)["error_code"] == code
    assert not RatifiedVersion.objects.exists()
    assert not CommitAttempt.objects.exists()
    client.call("DELETE", "tables/lake.sales.orders")
    assert client.commit(table, info, 404)["error_code"] == "TABLE_NOT_FOUND"
    assert not RatifiedVersion.objects.exists()
    assert client.create_table()["table_id"] != table["table_id"]  # the name is free again


def test_addresses_and_bodies_outside_the_api_are_refused_in_its_shape(client):
    for method, address, body, status, code in (
        ("GET", "functions", None, 404, "NOT_FOUND"),
        ("GET", "catalogs/none", None, 404, "CATALOG_NOT_FOUND"),
        ("GET", "schemas/lake.none", None, 404, "SCHEMA_NOT_FOUND"),
        ("GET", "tables/lake.sales.none", None, 404, "TABLE_NOT_FOUND"),
        ("GET", "catalogs?max_results=x", None, 400, "INVALID_ARGUMENT"),
        ("POST", "catalogs", {"name": "lake"}, 409, "CATALOG_ALREADY_EXISTS"),
        ("POST", "catalogs", {"name": "a/b"}, 400, "INVALID_ARGUMENT"),
        ("POST", "catalogs", {"name": "x", "storage_root": "/etc"}, 400, "INVALID_ARGUMENT"),
        ("POST", "catalogs", [], 400, "INVALID_ARGUMENT"),
        (
            "POST", "schemas", {"catalog_name": "lake", "name": "sales"},
            409, "SCHEMA_ALREADY_EXISTS",
        ),
        ("DELETE", "catalogs/lake", None, 400, "FAILED_PRECONDITION"),
        ("PUT", "catalogs", {}, 501, "UNIMPLEMENTED"),
    ):  # fmt: skip
        error = client.call(method, address, body, status)
        assert error["error_code"] == code, address
    bad = Client().get(f"{BASE}/catalogs", headers={"Authorization": "Bearer lake_none"})
    assert (bad.status_code, bad.json()["error_code"]) == (401, "UNAUTHENTICATED")
    assert Client().get(f"{TABLE}/orders").json()["error"]["type"] == "NotAuthorizedException"


def test_texts_that_a_database_cannot_hold_are_no_fault_of_the_catalog(client):
    table = client.create_table()
    info = stage(table, 1, set_property(table["table_id"], "p", "a\0b"))
    for response in (
        client.send("GET", "catalogs?page_token=a%00b"),
        client.send("POST", "delta/preview/commits", proposal(table, info)),
    ):
        assert response.status_code in (200, 400), response.content
    ratified = RatifiedVersion.objects.count()  # SQLite holds it
    assert client.commits(table)["latest_table_version"] == ratified


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"a":' * 50_000, '{"a": NaN}', '{"a": "\\u0000"}']
)
def test_bodies_that_no_program_means_are_refused(client, body):
    response = client.send_text("POST", "delta/preview/commits", body)
    assert response.status_code == 400
    assert response.json()["error_code"] == "INVALID_ARGUMENT"


def test_rights_on_one_table_give_none_on_another(client):
    mine, other = client.create_table("mine"), client.create_table("other")
    for name, role in (("mine", Role.OPERATOR), ("other", Role.VIEWER)):
        row = ManagedTable.objects.get(name=name).mirror
        user = User.objects.filter(username="w").first() or person("w")
        TableGrant.objects.create(table=row, user=user, role=role)
    caller, info = UnityClient(user), stage(other, 1)
    caller.commit(other, info, 403)
    mixed = mine | {"storage_location": other["storage_location"]}
    caller.commit(mixed, info, 400)
    caller.commit(mine, info, 400)  # its file is not among those of this table
    update = {
        "requirements": [{"type": "assert-table-uuid", "uuid": other["table_id"]}],
        "updates": [{"action": "set-latest-backfilled-version", "latest-published-version": 0}],
    }
    caller.call("POST", f"{TABLE}/mine", update, 409)
    caller.call("POST", f"{TABLE}/other", update, 403)
    keys = {"table_id": other["table_id"], "operation": "READ_WRITE"}
    caller.call("POST", "temporary-table-credentials", keys, 403)
    assert not RatifiedVersion.objects.exists()
    caller.commit(mine, stage(mine, 1))


def test_an_unreserved_location_becomes_no_table(client, tmp_path):
    names = {"catalog_name": "lake", "schema_name": "sales", "name": "orders"}
    staged = client.call("POST", "staging-tables", names)
    body = {**names, "table_type": "MANAGED", "data_source_format": "DELTA", "columns": []}
    other = UnityClient(person("second", "admin"))
    for caller, location, status in (
        (client, f"file://{tmp_path}", 400),
        (client, staged["staging_location"] + "/x", 400),
        (other, staged["staging_location"], 403),
    ):
        caller.call("POST", "tables", body | {"storage_location": location}, status)
    write(staged["staging_location"], "00000000000000000000.json", first_commit(uuid.uuid4()))
    client.call("POST", "tables", body | {"storage_location": staged["staging_location"]}, 400)
    assert not ManagedTable.objects.exists()


def test_rights_are_those_of_the_table_and_of_the_token(client):
    table = client.create_table()
    row = ManagedTable.objects.get().mirror
    stranger, reader, writer = person("stranger"), person("reader"), person("writer")
    for user, role in ((reader, Role.VIEWER), (writer, Role.OPERATOR)):
        TableGrant.objects.create(table=row, user=user, role=role)
    info = stage(table, 1)
    assert UnityClient(stranger).commit(table, info, 404)["error_code"] == "TABLE_NOT_FOUND"
    assert UnityClient(reader).commits(table)["latest_table_version"] == 0
    for caller in (UnityClient(reader), UnityClient(writer, Role.VIEWER)):
        assert caller.commit(table, info, 403)["error_code"] == "PERMISSION_DENIED"
        caller.call("DELETE", "tables/lake.sales.orders", status=403)
    caller = UnityClient(writer)
    changed = set_property(table["table_id"], "a", "b")
    assert caller.commit(table, stage(table, 1, changed), 403)["error_code"] == "PERMISSION_DENIED"
    assert not RatifiedVersion.objects.exists()
    caller.commit(table, info)
    client.commit(table, stage(table, 2, set_property(table["table_id"], "a", "b", 2)))
    assert client.call("GET", "tables/lake.sales.orders")["properties"]["a"] == "b"
    caller.call("POST", "staging-tables", {"catalog_name": "lake"}, 403)


def test_a_person_who_asks_too_often_is_told_when_to_retry_in_both_forms(client, settings):
    client.create_table()
    settings.API_RATE_CATALOG = "1/min"
    cache.clear()
    client.call("GET", "catalogs")
    throttled = [client.send("GET", address) for address in ("catalogs", f"{TABLE}/orders")]
    assert [answer.status_code for answer in throttled] == [429, 429]
    assert throttled[0].json()["error_code"] == "RESOURCE_EXHAUSTED"
    assert throttled[1].json()["error"]["type"] == "TooManyRequestsException"
    assert all(0 < int(answer.headers["Retry-After"]) <= 60 for answer in throttled)


def test_local_locations_need_no_credentials_and_others_are_refused_by_name(client, settings):
    table = client.create_table()
    body = {"table_id": table["table_id"], "operation": "READ_WRITE"}
    answer = client.call("POST", "temporary-table-credentials", body)
    assert set(answer) == {"expiration_time"}
    settings.TABLE_ROOTS = [*settings.TABLE_ROOTS, "s3://lake"]
    settings.TABLE_STORAGE_OPTIONS = {
        "s3://lake": {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    }
    ManagedTable.objects.update(location="s3://lake/t")
    error = client.call("POST", "temporary-table-credentials", body, 400)
    assert "CATALOG_VENDS_KEYS" in error["message"]
    assert "secret" not in error["message"]
    settings.CATALOG_VENDS_KEYS = True
    answer = client.call("POST", "temporary-table-credentials", body)
    assert answer["aws_temp_credentials"] == {"access_key_id": "id", "secret_access_key": "secret"}
    config = client.call("GET", f"{TABLE}/orders/credentials?operation=READ")
    assert config["storage-credentials"][0]["config"]["s3.access-key-id"] == "id"


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_ratify_contiguous_versions_once():
    client = open_catalog()
    table, landed = client.create_table(), []
    start = threading.Barrier(4)

    def write_commits():
        start.wait()
        for _ in range(4):
            statuses = [409]
            while statuses == [409]:
                latest = client.commits(table)["latest_table_version"]
                body = proposal(table, stage(table, latest + 1))
                sent = [client.send("POST", "delta/preview/commits", body) for _ in range(2)]
                statuses = sorted({response.status_code for response in sent})
            assert statuses == [200]
            landed.append(body["commit_info"])
        connections.close_all()

    threads = [threading.Thread(target=write_commits) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = client.commits(table)
    assert answer["latest_table_version"] == 16
    assert answer["commits"] == sorted(landed, key=lambda info: -info["version"])
