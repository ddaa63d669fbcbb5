import pytest

from engine.actions.table import Protocol
from engine.errors import UnsupportedFeatureError
from engine.protocol.features import (
    check_readable,
    check_writable,
    has_feature,
    list_supported_features,
    lowest_protocol,
    remove_features,
    upgrade,
)
from engine.schema.types import (
    LONG,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    StructField,
    StructType,
)

PLAIN = StructType((StructField("id", LONG),))


def protocol(
    reader: int, writer: int, readers: list[str] | None = None, writers: list[str] | None = None
) -> Protocol:
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=readers,
        writer_features=writers,
    )


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (
            protocol(3, 7, ["catalogOwned", "deletionVectors"], ["catalogOwned"]),
            ["catalogOwned"],
        ),
        (protocol(3, 7, ["fromTheFuture"], []), ["fromTheFuture"]),
        (protocol(4, 7), ["reader version 4"]),
        (protocol(99, 7), ["reader version 99"]),
        (protocol(0, 0), ["reader version 0"]),
    ],
)
def test_an_unreadable_table_is_refused_with_the_features_it_needs(
    declared: Protocol, named: list[str]
):
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_readable("t", declared)
    assert caught.value.features == named
    assert caught.value.purpose == "read"


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (protocol(1, 7, None, ["collations-preview"]), ["collations-preview"]),
        (protocol(1, 7, None, ["icebergCompatV1"]), ["icebergCompatV1"]),
        (protocol(1, 8), ["writer version 8"]),
    ],
)
def test_a_table_that_can_only_be_read_is_refused_to_writers(declared: Protocol, named: list[str]):
    check_readable("t", declared)
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_writable("t", declared)
    assert caught.value.features == named
    assert caught.value.purpose == "write"


def test_versions_imply_their_features():
    assert list_supported_features(protocol(1, 1)) == set()
    assert list_supported_features(protocol(1, 2)) == {"appendOnly", "invariants"}
    assert has_feature(protocol(2, 5), "columnMapping")
    assert not has_feature(protocol(2, 5), "identityColumns")
    assert has_feature(protocol(2, 6), "identityColumns")


def test_lists_replace_features_implied_by_versions():
    assert list_supported_features(protocol(1, 7, None, ["appendOnly"])) == {"appendOnly"}


def test_a_plain_table_needs_no_lists():
    assert lowest_protocol(PLAIN, {}) == protocol(1, 2)
    assert lowest_protocol(PLAIN, {"delta.enableChangeDataFeed": "true"}) == protocol(1, 4)
    assert lowest_protocol(PLAIN, {"delta.columnMapping.mode": "name"}) == protocol(2, 5)


def test_a_reader_feature_is_in_both_lists():
    needed = lowest_protocol(PLAIN, {"delta.enableDeletionVectors": "true"})
    assert needed == protocol(
        3, 7, ["deletionVectors"], ["appendOnly", "deletionVectors", "invariants"]
    )


def test_a_writer_feature_alone_leaves_readers_be():
    needed = lowest_protocol(PLAIN, {"delta.enableRowTracking": "true"})
    assert needed == protocol(
        1, 7, None, ["appendOnly", "domainMetadata", "invariants", "rowTracking"]
    )


def test_a_type_anywhere_in_the_schema_needs_its_feature():
    schema = StructType(
        (StructField("a", ArrayType(StructType((StructField("t", TIMESTAMP_NTZ),)))),)
    )
    assert has_feature(lowest_protocol(schema, {}), "timestampNtz")


def test_a_requested_feature_that_cannot_be_written_is_refused():
    with pytest.raises(UnsupportedFeatureError, match="catalogOwned"):
        lowest_protocol(PLAIN, {"delta.feature.catalogOwned": "supported"})


def test_an_upgrade_keeps_features_implied_by_versions():
    upgraded = upgrade(protocol(2, 5), ["deletionVectors"])
    assert upgraded.min_reader_version == 3
    assert set(upgraded.reader_features or []) == {"columnMapping", "deletionVectors"}
    assert {"changeDataFeed", "checkConstraints", "columnMapping"} <= set(
        upgraded.writer_features or []
    )


def test_an_upgrade_to_the_present_protocol_changes_nothing():
    current = protocol(3, 7, ["deletionVectors"], ["deletionVectors"])
    assert upgrade(current, ["deletionVectors"]) is current


@pytest.mark.parametrize(
    ("before", "dropped", "after"),
    [
        (
            protocol(3, 7, ["deletionVectors"], ["deletionVectors", "appendOnly", "invariants"]),
            "deletionVectors",
            protocol(1, 2),
        ),
        (
            protocol(
                3, 7, ["deletionVectors", "v2Checkpoint"], ["deletionVectors", "v2Checkpoint"]
            ),
            "v2Checkpoint",
            protocol(3, 7, ["deletionVectors"], ["deletionVectors"]),
        ),
        (protocol(1, 3), "invariants", protocol(1, 7, None, ["appendOnly", "checkConstraints"])),
        (protocol(1, 3), "checkConstraints", protocol(1, 2)),
        (
            protocol(2, 5),
            "columnMapping",
            protocol(1, 4),
        ),
        (
            protocol(2, 5),
            "changeDataFeed",
            protocol(
                2,
                7,
                None,
                [
                    "appendOnly",
                    "checkConstraints",
                    "columnMapping",
                    "generatedColumns",
                    "invariants",
                ],
            ),
        ),
    ],
)
def test_a_protocol_without_a_feature_is_the_lowest_that_has_the_rest(
    before: Protocol, dropped: str, after: Protocol
):
    assert remove_features(before, {dropped}) == after


def test_a_feature_of_a_type_that_no_column_has_stops_no_writer():
    listed = ["variantType", "deletionVectors"]
    protocol = Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=listed, writer_features=listed
    )
    plain = StructType((StructField("id", LONG),))
    check_writable("t", protocol, plain)
    for schema in (None, StructType((StructField("v", ArrayType(VARIANT)),))):
        with pytest.raises(UnsupportedFeatureError, match="variantType"):
            check_writable("t", protocol, schema)
