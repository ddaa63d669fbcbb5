"""INSERT INTO … SELECT * FROM STREAM: new rows arrive once, even if it runs twice or concurrently."""

import pytest

from engine.commands.model import Stream
from engine.commands.sql import parse_statement
from engine.errors import (
    ConcurrentTransactionException,
    OperationCancelledError,
    RequestError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from engine.operations.run import run
from engine.snapshot.stream_log import (
    SourceReplacedError,
    SourceRowsChangedError,
    SourceSchemaChangedError,
    StreamLogCleanedError,
)
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.lake_writes import COLUMNS, append, delete, ids, list_unlogged_files


@pytest.fixture
def source(tmp_path):
    made = DeltaTable(open_store(str(tmp_path / "source")))
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    run(parse_statement(f"CREATE TABLE s ({COLUMNS}) PARTITIONED BY (p) {properties}"), made, None)
    append(made, (1, "a b", None), (2, None, {"x": 2}))
    append(made, (3, "a b", {"x": 3}))
    return made


@pytest.fixture
def target(tmp_path):
    made = DeltaTable(open_store(str(tmp_path / "target")))
    run(parse_statement(f"CREATE TABLE t ({COLUMNS})"), made, None)
    return made


def alter(table, what):
    run(parse_statement(f"ALTER TABLE t {what}"), table, None)


class Meanwhile(TransactionObserver):
    """An observer that acts once, right before a commit."""

    def __init__(self, deed):
        self._deed = deed

    def before_commit(self, _txn, _attempt_version):
        deed, self._deed = self._deed, lambda: None
        deed()


def cancel():
    msg = "Enough."
    raise OperationCancelledError(msg)


@pytest.fixture
def stream(spark, source, target):
    """Return a function that runs the stream from the source to the target."""

    def perform(observer=None, **options):
        return run(Stream(source.uri, **options), target, spark, observer=observer)

    return perform


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_stream_brings_everything_over_once(stream, source, target, rows_elsewhere):
    first = stream(max_files_per_batch=2)
    assert (first.versions, first.version) == ((1, 2), 2)
    assert first.metrics["numOutputRows"] == 3
    assert (first.metrics["numBatches"], first.metrics["lastSourceVersion"]) == (2, 2)
    rows = rows_elsewhere(target)
    expected = [(1, "a b", None), (2, None, {"x": 2}), (3, "a b", {"x": 3})]
    assert rows["engine"] == rows["duckdb"] == sorted(expected, key=repr)
    info = target.history(1)[0]
    told = (info.operation, info.operation_parameters["sourceVersions"])
    assert told == ("STREAMING UPDATE", "2 to 2")
    again = stream()
    nothing = "The source has no new rows since its version 2."
    assert (again.version, again.message) == (None, nothing)

    # one that is stopped before its commit leaves nothing, and the next one takes its rows
    append(source, (4, "c", None))
    with pytest.raises(OperationCancelledError):
        stream(Meanwhile(cancel))
    assert (target.version(), list_unlogged_files(target)) == (2, [])

    # of two at once, one loses
    with pytest.raises(ConcurrentTransactionException, match="lake-stream:"):
        stream(Meanwhile(stream))
    assert (ids(target), list_unlogged_files(target)) == ([1, 2, 3, 4], [])
    assert target.version() == 3


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_changed_schema_and_changed_rows_stop_a_stream_until_an_option_allows_them(
    stream, source, target
):
    alter(source, "ADD COLUMNS (more STRING)")
    append(source, (6, "c", None, "x"))
    for _ in range(2):  # what came before the change comes over, once
        with pytest.raises(SourceSchemaChangedError, match=r"Version 3 .* column more was added"):
            stream(starting_version=2)
        assert ids(target) == [3]
    with pytest.raises(SchemaMismatchError, match="more, but the table does not"):
        stream(accept_schema_version=3)
    stream(accept_schema_version=3, merge_schema=True)
    rows = target.snapshot().to_arrow(condition="id = 6").to_pylist()
    assert rows == [{"id": 6, "p": "c", "s": None, "more": "x"}]

    delete(source, 1)
    with pytest.raises(SourceRowsChangedError, match=r"Version 5 .*skipChangeCommits"):
        stream()
    assert stream(skip_change_commits=True).metrics["numOutputRows"] == 0
    assert stream(stream_name="other", starting_version=4, ignore_changes=True).version
    assert ids(target) == [3, 6, 6]


def test_a_dry_run_says_which_files_would_come_over(source, target):
    plan = run(Stream(source.uri), target, None, dry_run=True).plan
    assert (plan.file_count, plan.facts) == (3, {"from_version": 2, "to_version": 2})
    plan = run(Stream(source.uri, starting_version=2), target, None, dry_run=True).plan
    assert plan.file_count == 1
    assert target.version() == 0


def test_a_stream_that_cannot_begin_is_refused(source, target):
    with pytest.raises(RequestError, match="cannot be streamed into itself"):
        run(Stream(target.uri), target, None)
    with pytest.raises(VersionNotFoundError):
        run(Stream(source.uri, starting_version=9), target, None)
    alter(target, "SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = '1 days')")
    with pytest.raises(RequestError, match="deletes the progress of streams"):
        run(Stream(source.uri), target, None)
    for command in (Stream(""), Stream("s", stream_name="a\nb")):
        with pytest.raises(RequestError):
            command.validate(None)


def test_a_new_stream_from_now_on_keeps_its_place_without_a_row(source, target):
    run(Stream(source.uri, starting_version=3), target, None)
    assert target.version() == 0
    empty = DeltaTable(open_store(f"{source.uri}-empty"))
    run(parse_statement(f"CREATE TABLE s ({COLUMNS})"), empty, None)
    result = run(Stream(empty.uri), target, None)
    assert (result.version, result.metrics["numOutputRows"]) == (1, 0)
    assert run(Stream(empty.uri), target, None).version is None


def test_a_source_that_was_replaced_or_cut_off_stops_the_stream(source, target):
    empty = DeltaTable(open_store(f"{source.uri}-empty"))
    run(parse_statement(f"CREATE TABLE s ({COLUMNS})"), empty, None)
    run(Stream(empty.uri, stream_name="one"), target, None)
    with pytest.raises(SourceReplacedError, match="with another checkpoint or name"):
        run(Stream(source.uri, stream_name="one"), target, None)
    run(Stream(empty.uri, stream_name="one"), target, None)
    for version in range(1, 12):
        append(empty, (version, None, None))
    for version in range(5):
        empty.store.delete(f"_delta_log/{version:020}.json")
    with pytest.raises(StreamLogCleanedError, match=r"version \d of .* removed by log cleanup"):
        run(Stream(empty.uri, stream_name="one"), target, None)
