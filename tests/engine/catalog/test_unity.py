"""Unity Catalog over HTTP, in both generations, with and without faults."""

import json
import random
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from engine.actions.table import Metadata
from engine.catalog.catalog import CatalogTableName
from engine.catalog.unity import UnityCatalog, find_options
from engine.catalog.unity_messages import (
    V1Credential,
    list_unity_columns,
    schema_from_v1,
    schema_to_v1,
)
from engine.errors import (
    CatalogDeniedError,
    CatalogError,
    CatalogOperationError,
    CatalogTableMissingError,
    CommitOutcomeUnknownError,
    RequestError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
)
from engine.log.management import OPTIMIZE
from engine.operations.run import run
from engine.schema.types import StructType, parse_schema
from engine.table import DeltaTable
from tests.engine.catalog.catalogs import NAME, ModelCatalog
from tests.engine.catalog.unity_server import TOKEN, UnityServer, serve
from tests.engine.transaction.tables import SCHEMA, FakeClock, append

PARSED = CatalogTableName.parse(NAME)


@pytest.fixture(params=["preview", "v1"])
def server(request, tmp_path) -> UnityServer:
    return UnityServer(ModelCatalog(), f"file://{tmp_path}/lake", has_v1=request.param == "v1")


@pytest.fixture
def catalog(server: UnityServer):
    with serve(server) as url, closing(UnityCatalog(url, TOKEN, clock=FakeClock())) as unity:
        yield unity


def test_a_table_is_created_written_read_and_dropped(server, catalog):
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    run("INSERT INTO t VALUES (1), (2), (3)", table)
    run("UPDATE t SET x = 20 WHERE x = 2", DeltaTable.open(NAME, catalog=catalog))
    assert sorted(table.snapshot().to_arrow().column("x").to_pylist()) == [1, 3, 20]
    managed = server.model.tables[table.store.table.table_id]
    assert [*managed.ratified] == [1, 2]
    for number in range(10):
        append(DeltaTable.open(NAME, catalog=catalog), f"f{number}")
    assert managed.latest == table.version() == 12
    assert managed.latest - managed.published <= 6
    with pytest.raises(TableExistsError):
        DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    catalog.drop_table(PARSED)
    with pytest.raises(TableNotFoundError):
        DeltaTable.open(NAME, catalog=catalog)
    with pytest.raises(CatalogTableMissingError):
        append(table, "late")
    with pytest.raises(TableNotFoundError):
        catalog.drop_table(PARSED)


def test_many_unpublished_commits_are_all_read(server, catalog):
    server.model.remembers = 50
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    for number in range(12):
        append(table, f"f{number}")
    answer = catalog.list_commits(table.store.table)
    assert [commit.version for commit in answer.check().commits] == [*range(1, 13)]
    assert DeltaTable.open(NAME, catalog=catalog).version() == 12


def test_commits_that_are_published_between_two_pages_are_no_gap(server, catalog):
    server.model.unpublished = 50
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    for number in range(12):
        append(table, f"f{number}")
    managed = server.model.tables[table.store.table.table_id]
    managed.published = 0
    asked = []

    def publish_meanwhile(_method: str, _path: str) -> None:
        asked.append(1)
        if len(asked) == 2:
            managed.published = 6

    server.weather = publish_meanwhile
    assert table.version() == 12
    assert len(table.snapshot().add_files()) == 12


def test_a_table_of_the_same_name_is_another_one(server, catalog):
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    append(table, "a")
    catalog.drop_table(PARSED)
    DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    with pytest.raises(CatalogTableMissingError):
        append(table, "b")
    assert DeltaTable.open(NAME, catalog=catalog).version() == 0


def test_a_changed_definition_is_sent_to_the_catalog(server, catalog):
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    run("ALTER TABLE t SET TBLPROPERTIES ('user.a' = '1', 'user.b' = '2')", table)
    run("ALTER TABLE t UNSET TBLPROPERTIES ('user.a')", table)
    run("ALTER TABLE t ADD COLUMNS (y ARRAY<DECIMAL(5, 2)> COMMENT 'amounts')", table)
    told = [
        json.loads(body)
        for method, path, body in server.requests
        if method == "POST" and path.endswith(("commits", "/t"))
    ]
    if server.has_v1:
        assert server.definitions[NAME].properties["user.b"] == "2"
        assert "user.a" not in server.definitions[NAME].properties
        columns = {update["action"]: update for update in told[-1]["updates"]}["set-columns"]
        assert columns["columns"]["fields"][1]["type"] == {
            "type": "array",
            "element-type": "decimal(5,2)",
            "contains-null": True,
        }
        return
    metadata = told[-1]["metadata"]
    assert metadata["properties"]["properties"]["user.b"] == "2"
    column = metadata["schema"]["columns"][1]
    assert (column["name"], column["position"], column["comment"]) == ("y", 1, "amounts")
    assert (column["type_text"], column["type_name"]) == ("array<decimal(5,2)>", "ARRAY")
    assert json.loads(column["type_json"])["type"]["elementType"] == "decimal(5,2)"


def test_a_wrong_token_is_reported(server):
    with (
        serve(server) as url,
        closing(UnityCatalog(url, "wrong", clock=FakeClock())) as catalog,
        pytest.raises(CatalogDeniedError),
    ):
        DeltaTable.open(NAME, catalog=catalog)


def test_maintenance_that_a_server_permits_is_permitted(tmp_path):
    server = UnityServer(
        ModelCatalog(permitted=frozenset({OPTIMIZE})), f"file://{tmp_path}", has_v1=True
    )
    with serve(server) as url, closing(UnityCatalog(url)) as catalog:
        DeltaTable.create(NAME, SCHEMA, catalog=catalog)
        table = DeltaTable.open(NAME, catalog=catalog)
        assert table.start_transaction().commit("OPTIMIZE", even_if_empty=True) == 1
        with pytest.raises(CatalogOperationError):
            table.start_transaction().commit("REORG", even_if_empty=True)
        with pytest.raises(RequestError):
            catalog.read_versions([table.store.table] * 2)


def test_credentials_of_the_catalog_are_those_of_the_table(model_with_credentials):
    given = {"aws_region": "eu-central-1", "aws_session_token": "own"}
    for table in (
        DeltaTable.create(NAME, SCHEMA, catalog=model_with_credentials, storage_options=given),
        DeltaTable.open(NAME, storage_options=given, catalog=model_with_credentials),
    ):
        assert table.storage_options == {**given, "aws_access_key_id": "key"}


@pytest.fixture
def model_with_credentials() -> ModelCatalog:
    model = ModelCatalog()
    stage = model.stage_table
    options = {"aws_access_key_id": "key", "aws_session_token": "vended"}
    model.stage_table = lambda name: replace(stage(name), storage_options=options)
    return model


def test_vended_credentials_become_options_of_a_store():
    config = {"s3.access-key-id": "key", "s3.session-token": None, "other": "x"}
    near = V1Credential("s3://lake/a/b", "READ", config)
    far = V1Credential("s3://lake/", "READ", {"s3.access-key-id": "far"})
    assert find_options("s3://lake/a/b/c", [far, near]) == {"aws_access_key_id": "key"}
    assert find_options("s3://lake/a/bc", [far, near]) == {"aws_access_key_id": "far"}
    assert find_options("s3://other/a", [far, near]) == {}


def test_an_unreachable_server_is_reported():
    with (
        closing(UnityCatalog("http://127.0.0.1:9", clock=FakeClock())) as catalog,
        pytest.raises(CatalogError, match="could not be sent"),
    ):
        DeltaTable.open(NAME, catalog=catalog)


def test_threads_share_a_catalog(server, catalog):
    DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    failures = []

    def write(first: int) -> None:
        try:
            table = DeltaTable.open(NAME, catalog=catalog)
            for number in range(5):
                append(table, f"f{first}-{number}")
        except Exception as error:  # noqa: BLE001 - any failure is reported
            failures.append(error)

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    table = DeltaTable.open(NAME, catalog=catalog)
    assert table.version() == table.snapshot().file_count == 20


def test_a_throttled_request_is_sent_again_after_the_requested_pause(server, catalog):
    table, clock = DeltaTable.create(NAME, SCHEMA, catalog=catalog), catalog._server._clock
    answers = ["429 7", "429 9999"]
    server.weather = lambda *_: answers.pop(0) if answers else None
    assert append(table, "a") == 1
    assert clock.pauses == [7, 60]
    server.weather = lambda method, _path: "429 7" if method == "POST" else None
    with pytest.raises(UnpublishedLimitError):
        catalog.report_published(table.store.table, 1)
    assert clock.pauses == [7, 60, 7, 7]


WEATHER = ("lost", "answer lost", "twice", "409", "429", "500", "503")


def test_under_any_faults_a_commit_lands_once_or_is_reported_as_unknown(server, catalog):
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog, clock=FakeClock())
    dice = random.Random(7)  # noqa: S311 - to be repeated

    def weather(_method: str, path: str) -> str | None:
        return dice.choice(WEATHER) if dice.random() < 0.25 and "config" not in path else None

    server.weather = weather
    landed, doubtful = [], []
    for number in range(24):
        try:
            assert append(table, f"f{number}", txn_id=f"f{number}")
            landed.append(f"f{number}")
        except CommitOutcomeUnknownError:
            doubtful.append(f"f{number}")
        except CatalogError:
            continue
    server.weather = lambda _method, _path: None
    files = [add.path for add in DeltaTable.open(NAME, catalog=catalog).snapshot().add_files()]
    assert set(landed) <= set(files) <= {*landed, *doubtful}
    assert len(landed) >= 10
    managed = server.model.tables[table.store.table.table_id]
    assert [*managed.ratified] == [*range(1, len(files) + 1)]


BAD_ANSWERS = (
    b"not json",
    b"[]",
    b'{"latest_table_version": "three", "latest-table-version": "three"}',
    b'{"commits": null}',
    b"[" * 100_000,
)


def test_an_answer_that_makes_no_sense_is_an_error_of_the_catalog(server, catalog):
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    for content in BAD_ANSWERS:
        catalog._server._send = lambda *_arguments, content=content: content
        with pytest.raises(CatalogError):
            table.version()


def test_a_commit_that_the_server_finds_invalid_is_refused(server, catalog):
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    server.weather = lambda method, _path: "400" if method == "POST" else None
    with pytest.raises(CatalogError, match="400"):
        append(table, "a")
    assert not [*table.store.files.list_from("_delta_log/_staged_commits", "")]


def test_types_have_their_names_in_both_generations():

    schema = parse_schema(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {"elementType": 1}}
                for name, kind in {
                    "i": "integer",
                    "l": "long",
                    "d": "decimal(10,2)",
                    "n": "timestamp_ntz",
                    "m": {
                        "type": "map",
                        "keyType": "string",
                        "valueType": {
                            "type": "struct",
                            "fields": [
                                {"name": "a", "type": "short", "nullable": True, "metadata": {}}
                            ],
                        },
                        "valueContainsNull": True,
                    },
                }.items()
            ],
        }
    )
    assert isinstance(schema, StructType)
    assert schema_from_v1(schema_to_v1(schema)) == schema
    assert schema_to_v1(schema)["fields"][4]["type"]["value-contains-null"] is True
    columns = list_unity_columns(
        Metadata(id="", schema_string=schema.to_json(), partition_columns=["l"])
    )
    assert [column.type_name for column in columns] == [
        "INT",
        "LONG",
        "DECIMAL",
        "TIMESTAMP_NTZ",
        "MAP",
    ]
    assert [column.type_text for column in columns][:3] == ["int", "bigint", "decimal(10,2)"]
    assert columns[4].type_text == "map<string,struct<a:smallint>>"
    assert columns[1].partition_index == 0
