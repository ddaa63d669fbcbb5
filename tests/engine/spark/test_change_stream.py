"""The change feed as a stream: the content of each batch, repeated batches, and the end. It needs no Spark."""

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from engine.commands.sql import parse_statement
from engine.errors import RequestError
from engine.operations.run import run
from engine.snapshot.stream_log import SourceSchemaChangedError
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.lake_writes import COLUMNS, append, lake_source

FEED = {"readChangeFeed": "true"}


def _do(table, text):
    return run(parse_statement(text), table, None)


@pytest.fixture
def table(tmp_path):
    """Return a table whose version 1 inserts 1 and 2, version 2 updates 1, and version 3 deletes 2."""
    made = _create_table(tmp_path / "t")
    append(made, (1, "a", None), (2, "b", None))
    _do(made, "UPDATE t SET p = 'z' WHERE id = 1")
    _do(made, "DELETE FROM t WHERE id = 2")
    return made


def _create_table(place, feed="true"):
    table = DeltaTable(open_store(str(place)))
    _do(table, f"CREATE TABLE t ({COLUMNS}) TBLPROPERTIES (delta.enableChangeDataFeed = {feed})")
    return table


def _stream(table, **options):
    source = lake_source(table, **FEED, **options)
    return source.streamReader(source.schema())


def _batch(stream, start, end):
    rows = []
    for partition in stream.partitions(start, end):
        for batch in stream.read(partition):
            assert batch.schema.names[-3:] == [
                "_change_type",
                "_commit_version",
                "_commit_timestamp",
            ]
            rows += [
                (r["_commit_version"], r["_change_type"], r["id"], r["p"])
                for r in batch.to_pylist()
            ]
    return sorted(rows)


def _all(stream):
    start = stream.initialOffset()
    return _batch(stream, start, stream.latestOffset(start, ReadAllAvailable()))


CHANGES = [
    (1, "insert", 1, "a"),
    (1, "insert", 2, "b"),
    (2, "update_postimage", 1, "z"),
    (2, "update_preimage", 1, "a"),
    (3, "delete", 2, "b"),
]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"startingVersion": "0"}, CHANGES),
        ({"startingVersion": "2"}, CHANGES[2:]),
        ({"startingVersion": "latest"}, []),
        ({}, [(3, "insert", 1, "z")]),
    ],
)
def test_a_stream_begins_at_the_given_version_or_with_the_present_rows(table, options, rows):
    assert _all(_stream(table, **options)) == rows


def test_batches_end_between_versions_and_repeat_their_rows(table):
    stream = _stream(table, startingVersion="0", maxFilesPerTrigger="1")
    offsets, seen = [stream.initialOffset()], []
    while True:
        end = stream.latestOffset(offsets[-1], stream.getDefaultReadLimit())
        if end == offsets[-1]:
            break
        seen += _batch(stream, offsets[-1], end)
        offsets.append(end)
    assert seen == CHANGES
    assert len(offsets) > 3
    append(table, (9, "i", None))
    again = _stream(table, startingVersion="0", maxFilesPerTrigger="1")
    assert _batch(again, offsets[0], offsets[-1]) == CHANGES
    end = again.latestOffset(offsets[-1], ReadAllAvailable())
    assert _batch(again, offsets[-1], end) == [(4, "insert", 9, "i")]


def test_a_first_batch_is_that_of_its_version_though_the_table_moved_on(table):
    stream = _stream(table)
    start = stream.initialOffset()
    append(table, (9, "i", None))
    end = stream.latestOffset(start, ReadAllAvailable())
    assert _batch(stream, start, end) == [(3, "insert", 1, "z"), (4, "insert", 9, "i")]


def test_columns_added_later_are_null_before(table):
    _do(table, "ALTER TABLE t ADD COLUMNS (more STRING)")
    stream = _stream(table, startingVersion="3")
    assert "more" in lake_source(table, **FEED).schema().names
    assert _all(stream) == [(3, "delete", 2, "b")]


def test_a_change_of_the_metadata_stops_a_running_stream(table):
    stream = _stream(table, startingVersion="latest")
    start = stream.initialOffset()
    _do(table, "ALTER TABLE t ADD COLUMNS (more STRING)")
    with pytest.raises(SourceSchemaChangedError):
        stream.latestOffset(start, ReadAllAvailable())


def test_a_table_without_a_feed_and_other_uses_are_refused(table, tmp_path):
    plain = _create_table(tmp_path / "plain", "false")
    with pytest.raises(RequestError, match="is not enabled"):
        _stream(plain)
    with pytest.raises(RequestError, match="acceptSchemaVersion"):
        _stream(table, acceptSchemaVersion="1")
    source = lake_source(table, **FEED)
    for use in (
        lambda: source.reader(source.schema()),
        lambda: source.writer(source.schema(), overwrite=False),
        lambda: source.streamWriter(source.schema(), overwrite=False),
    ):
        with pytest.raises(RequestError, match="only as a stream"):
            use()


def test_versions_of_before_the_feed_are_refused_when_they_are_read(tmp_path):
    table = _create_table(tmp_path / "late", "false")
    append(table, (1, "a", None))
    _do(table, "ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    with pytest.raises(RequestError, match="was not enabled at version 1"):
        _all(_stream(table, startingVersion="0"))


def test_rows_have_the_very_types_that_spark_looks_for(table):
    stream = _stream(table, startingVersion="0")
    start = stream.initialOffset()
    for partition in stream.partitions(start, stream.latestOffset(start, ReadAllAvailable())):
        for batch in stream.read(partition):
            assert batch.schema.field("_commit_version").type == pa.int64()
            assert batch.schema.field("_commit_timestamp").type == pa.timestamp("us", tz="UTC")
