import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import (
    EngineError,
    InvalidPropertyError,
    InvalidSchemaError,
    ProtocolChangedException,
    TableExistsError,
    UnknownColumnError,
)
from engine.protocol.features import has_feature
from engine.schema.types import LONG, STRING, VARIANT, ArrayType, StructField, StructType
from engine.table import DeltaTable

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4()}/t"


def test_a_table_without_partitions_gets_deletion_vectors(uri: str):
    snapshot = DeltaTable.create(uri, SCHEMA).snapshot()
    assert snapshot.version == 0
    assert snapshot.schema == SCHEMA
    assert snapshot.properties.enable_deletion_vectors
    assert snapshot.protocol.reader_features == ["deletionVectors"]


def test_deletion_vectors_can_be_declined(uri: str):
    snapshot = DeltaTable.create(
        uri, SCHEMA, properties={"delta.enableDeletionVectors": "false"}
    ).snapshot()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)


def test_a_table_of_an_old_protocol_has_no_deletion_vectors(uri: str):
    versions = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}
    snapshot = DeltaTable.create(uri, SCHEMA, properties=versions).snapshot()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)
    assert not snapshot.metadata.configuration


def test_a_partitioned_table_has_a_plain_protocol(uri: str):
    snapshot = DeltaTable.create(uri, SCHEMA, partition_columns=["NAME"]).snapshot()
    assert snapshot.partition_columns == ["name"]
    assert not snapshot.properties.enable_deletion_vectors
    assert snapshot.protocol.reader_features is None


def test_a_clustered_table_can_trace_its_rows(uri: str):
    snapshot = DeltaTable.create(uri, SCHEMA, clustering_columns=["name"]).snapshot()
    assert snapshot.clustering_columns == ("name",)
    assert snapshot.properties.row_tracking
    assert snapshot.properties.row_id_column
    for feature in ("clustering", "domainMetadata", "rowTracking", "deletionVectors"):
        assert has_feature(snapshot.protocol, feature)


def test_a_mapped_table_names_its_clustering_columns_physically(uri: str):
    properties = {"delta.columnMapping.mode": "name"}
    snapshot = DeltaTable.create(
        uri, SCHEMA, clustering_columns=["name"], properties=properties
    ).snapshot()
    listed = json.loads(snapshot.domains["delta.clustering"].configuration)["clusteringColumns"]
    assert listed[0][0].startswith("col-")
    assert snapshot.clustering_columns == ("name",)
    assert snapshot.properties.column_mapping_max_id == 2


def test_requested_features_are_in_the_protocol_and_not_in_the_properties(uri: str):
    snapshot = DeltaTable.create(
        uri, SCHEMA, properties={"delta.feature.v2Checkpoint": "supported"}
    ).snapshot()
    assert has_feature(snapshot.protocol, "v2Checkpoint")
    assert not any(key.startswith("delta.feature") for key in snapshot.metadata.configuration)


def test_a_schema_may_be_deltas_json(uri: str):
    assert DeltaTable.create(uri, SCHEMA.to_json()).snapshot().schema == SCHEMA


def test_a_table_that_exists_is_not_created_again(uri: str):
    DeltaTable.create(uri, SCHEMA)
    with pytest.raises(TableExistsError):
        DeltaTable.create(uri, SCHEMA)


def test_of_racing_creators_one_wins(uri: str):
    def create(_: int) -> str:
        try:
            DeltaTable.create(uri, SCHEMA)
        except (TableExistsError, ProtocolChangedException) as error:
            return type(error).__name__
        return "created"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(create, range(8)))
    assert outcomes.count("created") == 1
    assert DeltaTable.open(uri).version() == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"schema": "x"}, InvalidSchemaError),
        (
            {"schema": StructType((StructField("a", LONG), StructField("A", LONG)))},
            InvalidSchemaError,
        ),
        ({"schema": StructType((StructField("a b", LONG),))}, InvalidSchemaError),
        ({"partition_columns": ["nope"]}, UnknownColumnError),
        ({"clustering_columns": ["nope"]}, UnknownColumnError),
        ({"partition_columns": ["id", "name"]}, InvalidSchemaError),
        ({"partition_columns": ["id"], "clustering_columns": ["name"]}, InvalidSchemaError),
        (
            {
                "schema": StructType((*SCHEMA, StructField("l", ArrayType(LONG)))),
                "partition_columns": ["l"],
            },
            InvalidSchemaError,
        ),
        ({"properties": {"delta.appendOnly": "maybe"}}, InvalidPropertyError),
        ({"properties": {"delta.apendOnly": "true"}}, InvalidPropertyError),
        ({"schema": StructType((StructField("v", VARIANT),))}, EngineError),
    ],
)
def test_an_impossible_table_is_refused_and_writes_nothing(uri: str, arguments, error):
    with pytest.raises(error):
        DeltaTable.create(uri, **{"schema": SCHEMA, **arguments})
    with pytest.raises(EngineError):
        DeltaTable.open(uri)


def test_a_name_that_parquet_forbids_is_fine_with_column_mapping(uri: str):
    schema = StructType((StructField("a b;c", LONG),))
    properties = {"delta.columnMapping.mode": "name"}
    assert DeltaTable.create(uri, schema, properties=properties).snapshot().schema.names == [
        "a b;c"
    ]
