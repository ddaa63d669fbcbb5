import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidIsolationLevelError, InvalidPropertyError
from engine.protocol.properties import TableProperties, validate_properties
from engine.schema.column_paths import parse_column_paths, render_column_paths


def test_absent_properties_have_their_defaults():
    properties = TableProperties.parse({})
    assert properties.isolation_level == "WriteSerializable"
    assert properties.checkpoint_interval == 10
    assert properties.deleted_file_retention_ms == 7 * 24 * 3600 * 1000
    assert properties.data_skipping_stats_columns is None
    assert not properties.enable_deletion_vectors


@pytest.mark.parametrize(
    ("key", "text", "attribute", "value"),
    [
        ("delta.isolationLevel", "Serializable", "isolation_level", "Serializable"),
        ("delta.isolationLevel", "serializable", "isolation_level", "Serializable"),
        ("delta.appendOnly", "TRUE", "append_only", True),
        ("delta.checkpointInterval", "3", "checkpoint_interval", 3),
        ("delta.logRetentionDuration", "interval 2 days 3 hours", "log_retention_ms", 183_600_000),
        (
            "delta.deletedFileRetentionDuration",
            "interval 1 week",
            "deleted_file_retention_ms",
            604_800_000,
        ),
        (
            "delta.deletedFileRetentionDuration",
            "INTERVAL 168 HOURS",
            "deleted_file_retention_ms",
            604_800_000,
        ),
        ("delta.targetFileSize", "128mb", "target_file_size_bytes", 134_217_728),
        ("delta.targetFileSize", "1000", "target_file_size_bytes", 1000),
        ("delta.dataSkippingNumIndexedCols", "-1", "data_skipping_num_indexed_cols", -1),
        ("delta.dataSkippingStringPrefixLength", "8", "data_skipping_string_prefix_length", 8),
        (
            "delta.dataSkippingStatsColumns",
            "a,b.c",
            "data_skipping_stats_columns",
            (("a",), ("b", "c")),
        ),
        (
            "delta.inCommitTimestampEnablementVersion",
            "7",
            "in_commit_timestamp_enablement_version",
            7,
        ),
    ],
)
def test_a_property_is_parsed(key: str, text: str, attribute: str, value: object):
    assert getattr(TableProperties.parse({key: text}), attribute) == value
    validate_properties({key: text})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "ten"),
        ("delta.checkpointInterval", "9" * 30),
        ("delta.logRetentionDuration", "a while"),
        ("delta.logRetentionDuration", "interval -1 days"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.targetFileSize", "big"),
        ("delta.targetFileSize", "0"),
        ("delta.columnMapping.mode", "names"),
        ("delta.checkpointPolicy", "v3"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_key(key: str, text: str):
    with pytest.raises(InvalidPropertyError) as caught:
        TableProperties.parse({key: text})
    assert caught.value.field == key


@pytest.mark.parametrize("level", ["SnapshotIsolation", "read committed", ""])
def test_another_isolation_level_is_refused(level: str):
    with pytest.raises(InvalidIsolationLevelError) as caught:
        TableProperties.parse({"delta.isolationLevel": level})
    assert caught.value.code == "DELTA_INVALID_ISOLATION_LEVEL"


def test_a_table_keeps_properties_that_mean_nothing_here():
    assert TableProperties.parse({"delta.fromTheFuture": "x", "owner": "me"}) == TableProperties()


def test_an_unknown_delta_property_cannot_be_set():
    with pytest.raises(InvalidPropertyError, match="fromTheFuture"):
        validate_properties({"delta.fromTheFuture": "x"})
    validate_properties({"owner": "me", "delta.constraints.positive": "a > 0"})


def test_a_list_of_columns_respects_quotes():
    assert parse_column_paths("a, `b, c` ,d.`e f`") == (("a",), ("b, c",), ("d", "e f"))
    assert parse_column_paths("`d.d`,d.d,`q``r`") == (("d.d",), ("d", "d"), ("q`r",))
    assert parse_column_paths("") == parse_column_paths("  ") == ()


def test_an_empty_list_of_columns_is_refused():
    for text in (",", "a,", "a..b", ".a", "`a", "a b", "``", "a`b`", "`a`b"):
        with pytest.raises(ValueError, match="list of columns"):
            parse_column_paths(text)


@given(st.lists(st.lists(st.text(min_size=1), min_size=1, max_size=3).map(tuple), max_size=4))
def test_a_list_of_columns_is_read_as_it_was_written(paths: list[tuple[str, ...]]):
    assert parse_column_paths(render_column_paths(paths)) == tuple(paths)
