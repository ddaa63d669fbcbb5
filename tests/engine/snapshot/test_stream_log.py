"""A stream over a table's log: the files that it returns, its batches, and its end."""

import itertools
import os
import shutil
import uuid
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import AddFile, RemoveFile
from engine.errors import RequestError
from engine.operations.run import run
from engine.schema.types import INTEGER, LONG, STRING, StructField, StructType
from engine.snapshot.stream_log import (
    MAX_INDEX,
    Position,
    SourceReplacedError,
    SourceRowsChangedError,
    SourceRowsRemovedError,
    SourceSchemaChangedError,
    StreamLimits,
    StreamLog,
    StreamLogCleanedError,
    StreamTerms,
    property_changes,
    schema_changes,
)
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.made_tables import stage

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))


def add(path, size=10, *, data_change=True):
    return AddFile(
        path=path,
        partition_values={},
        size=size,
        modification_time=0,
        data_change=data_change,
        stats='{"numRecords":1}',
    )


def remove(path, *, data_change=True):
    return RemoveFile(path=path, data_change=data_change, deletion_timestamp=1)


@pytest.fixture
def table(tmp_path):
    return DeltaTable.create(str(tmp_path / "t"), SCHEMA)


def commit(table, *actions, operation="WRITE"):
    txn = table.start_transaction()
    if any(isinstance(action, RemoveFile) for action in actions):
        txn.read_whole_table()
    stage(txn, *actions)
    return txn.commit(operation)


def change_schema(table, *columns, **configuration):
    metadata = table.snapshot().metadata
    schema = StructType(columns).to_json() if columns else metadata.schema_string
    properties = {**metadata.configuration, **configuration}
    new = msgspec.structs.replace(metadata, schema_string=schema, configuration=properties)
    return commit(table, new, operation="ALTER")


def log_of(table, **terms):
    snapshot = table.snapshot(terms.pop("version", None))
    tip = snapshot.state.tip
    return StreamLog(table.store, StreamTerms(snapshot.metadata, snapshot.version, tip, **terms))


def batches(log, start, last_version, **limits):
    """Return the paths of each batch up to the end."""
    paths = []
    while True:
        end = log.batch_end(start, StreamLimits(**limits), last_version)
        if end == start:
            return paths, end
        paths.append([file.path for file in log.files(start, end)])
        start = end


def test_the_whole_table_comes_first_then_added_files(table):
    commit(table, add("a"), add("b"))
    commit(table, add("c"))
    log = log_of(table)
    paths, end = batches(log, Position(2, initial=True), 2)
    assert (paths, end) == ([["a", "b", "c"]], Position(3))
    commit(table, add("d"))
    assert batches(log, end, 3) == ([["d"]], Position(4))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_files": 1}, [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ({"max_files": 2}, [["a", "b"], ["c", "d"], ["e"]]),
        ({"max_bytes": 25}, [["a", "b", "c"], ["d", "e"]]),
        ({"max_bytes": 1}, [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ({}, [["a", "b", "c", "d", "e"]]),
    ],
)
def test_a_batch_respects_its_limits_and_may_end_inside_a_version(table, limits, expected):
    commit(table, add("a"), add("b"))
    commit(table, add("c"), add("d"), add("e"))
    assert batches(log_of(table), Position(0), 2, **limits)[0] == expected
    assert batches(log_of(table), Position(2, initial=True), 2, **limits)[0] == expected


def test_any_end_of_a_batch_may_be_the_beginning_of_another_stream(table):
    commit(table, add("a"), add("b"), add("c"))
    commit(table, add("d"))
    ends = [Position(2, i, initial=i < 4) for i in range(4)] + [Position(3)]
    paths = ["a", "b", "c", "d"]
    for (i, start), (j, end) in itertools.combinations(enumerate(ends), 2):
        assert [file.path for file in log_of(table).files(start, end)] == paths[i:j]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.integers(0, 6),
)
def test_any_way_of_batching_gives_every_file_once(sizes, limits, initial_version):
    """Versions add or move files; batches have any size; each batch starts from its offset alone."""
    table = DeltaTable.create(f"memory://batching/{uuid.uuid4()}", SCHEMA)
    added, first = [], min(initial_version, len(sizes))
    live = []
    for number, size in enumerate(sizes):
        names = [f"{number}-{i}" for i in range(size)]
        if names:
            commit(table, *map(add, names))
            live += names
        else:
            old, live = live[:1], [*live[1:], f"{number}-moved"]
            moved = add(live[-1], data_change=False)
            commit(table, *[remove(file, data_change=False) for file in old], moved)
        added.append(names)
    expected = [
        *(str(p) for p in table.snapshot(first).files().column("path").to_pylist()),
        *itertools.chain.from_iterable(added[first:]),
    ]
    paths, position = [], Position(first, initial=True)
    for limit in itertools.cycle(limits):
        log = log_of(table)
        start = Position.from_number(position.to_number())
        position = log.batch_end(start, StreamLimits(limit), len(sizes))
        if position == start:
            break
        batch = log.files(start, position)
        assert len(batch) <= limit
        paths += [file.path for file in batch]
    assert sorted(paths) == sorted(expected)


def test_versions_that_move_rows_are_passed_over(table):
    commit(table, add("a"))
    commit(table, remove("a", data_change=False), add("b", data_change=False), operation="OPTIMIZE")
    assert batches(log_of(table), Position(1), 2) == ([["a"]], Position(3))
    assert batches(log_of(table), Position(2), 2) == ([[]], Position(3))


def test_a_removal_stops_the_stream_after_the_commits_before_it(table):
    commit(table, add("a"))
    commit(table, remove("a"), operation="DELETE")
    log = log_of(table)
    end = log.batch_end(Position(1), StreamLimits(), 2)
    assert end == Position(2)
    with pytest.raises(SourceRowsRemovedError, match=r"Version 2 .* \(DELETE\).*ignoreDeletes"):
        log.batch_end(end, StreamLimits(), 2)
    for rule in ("ignore_deletes", "ignore_changes", "skip_change_commits"):
        assert batches(log_of(table, **{rule: True}), Position(1), 2)[0] == [["a"]]


def test_a_rewrite_stops_the_stream_unless_it_is_skipped_or_read_again(table):
    commit(table, add("a"))
    commit(table, remove("a"), add("a2"), operation="UPDATE")
    for rules in ({}, {"ignore_deletes": True}):
        with pytest.raises(SourceRowsChangedError, match=r"Version 2 .*skipChangeCommits"):
            log_of(table, **rules).batch_end(Position(2), StreamLimits(), 2)
    assert batches(log_of(table, ignore_changes=True), Position(1), 2)[0] == [["a", "a2"]]
    assert batches(log_of(table, skip_change_commits=True), Position(1), 2)[0] == [["a"]]


def test_a_schema_change_after_the_beginning_stops_the_stream(table):
    log = log_of(table)
    commit(table, add("a"))
    change_schema(table, *SCHEMA, StructField("more", STRING))
    commit(table, add("b"))
    end = log.batch_end(Position(0), StreamLimits(), 3)
    assert [file.path for file in log.files(Position(0), end)] == ["a"]
    with pytest.raises(SourceSchemaChangedError, match="column more was added") as stopped:
        log.batch_end(end, StreamLimits(), 3)
    assert stopped.value.version == 2
    accepted = log_of(table, version=2, accepted_version=2)
    assert batches(accepted, end, 3)[0] == [["b"]]


def test_a_change_of_properties_stops_only_streams_that_check_it(table):
    first = table.snapshot().version
    change_schema(table, **{"delta.logRetentionDuration": "interval 1 days"})
    commit(table, add("a"))
    assert batches(log_of(table, version=first), Position(1), 2)[0] == [["a"]]
    with pytest.raises(SourceSchemaChangedError, match=r"delta\.logRetentionDuration changed"):
        log_of(table, version=first, heeds_properties=True).batch_end(
            Position(1), StreamLimits(), 2
        )


def test_columns_added_before_the_query_began_do_no_harm_lost_ones_do(table):
    commit(table, add("a"))
    change_schema(table, *SCHEMA, StructField("more", STRING))
    log_of(table).check_since(Position(1))
    change_schema(table, StructField("id", LONG), StructField("more", INTEGER))
    with pytest.raises(SourceSchemaChangedError) as stopped:
        log_of(table).check_since(Position(1))
    assert stopped.value.version == 3
    assert stopped.value.changes == (
        "column name was dropped",
        "column more changed from string to integer",
    )
    assert "acceptSchemaVersion" in stopped.value.remedy
    log_of(table, accepted_version=3).check_since(Position(1))
    log_of(table).check_since(Position(3, initial=True))


def test_a_log_that_was_cleaned_below_the_position_is_named(table):
    for name in "abc":
        commit(table, add(name))
    for version in (0, 1):
        Path(table.uri, "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(StreamLogCleanedError, match=r"version 1 of .* begins at version 2"):
        log_of_version_3(table).batch_end(Position(1), StreamLimits(), 3)
    with pytest.raises(StreamLogCleanedError):
        log_of_version_3(table).batch_end(Position(1, initial=True), StreamLimits(), 3)


def log_of_version_3(table):
    """Return the known schema and properties of a table whose log can no longer be replayed."""
    return StreamLog(table.store, StreamTerms(table.snapshot().metadata, 3))


def test_another_table_in_the_same_place_is_not_read_on(table):
    terms = StreamTerms(msgspec.structs.replace(table.snapshot().metadata, id="another"), 0)
    with pytest.raises(SourceReplacedError, match="another"):
        StreamLog(table.store, terms).batch_end(Position(0), StreamLimits(), 0)


def test_positions_keep_their_order_and_themselves_as_numbers():
    ordered = [
        Position(7, 0, initial=True),
        Position(7, MAX_INDEX - 1, initial=True),
        Position(8),
        Position(8, 1),
        Position(8, MAX_INDEX - 1),
        Position(2**38),
    ]
    numbers = [position.to_number() for position in ordered]
    assert numbers == sorted(numbers)
    assert numbers[-1] < 2**63
    assert [Position.from_number(number) for number in numbers] == ordered
    assert [Position.from_json(position.to_json("t")) for position in ordered] == ordered


@pytest.mark.parametrize(
    "offset", [{}, {"version": "1", "index": 0, "initial": False}, {"version": 1, "index": True}]
)
def test_text_that_is_no_offset_is_refused(offset):
    with pytest.raises(RequestError, match="not an offset"):
        Position.from_json(offset)


def test_changes_of_metadata_are_recognized_by_the_column_and_not_by_its_name():
    def metadata(*columns, **more):
        return msgspec.structs.replace(
            DeltaTable.create(f"memory://m/{uuid.uuid4()}", SCHEMA).snapshot().metadata,
            schema_string=StructType(columns).to_json(),
            **more,
        )

    def column(name, kind=LONG, number=1, **more):
        return StructField(name, kind, metadata={"delta.columnMapping.id": number}, **more)

    inside = StructType((column("x", LONG, 3),))
    before = metadata(column("a"), column("s", inside, 2, nullable=False))
    after = metadata(
        column("b"),
        column("s", StructType((column("x", STRING, 3),)), 2),
        column("new", LONG, 4),
        partition_columns=["b"],
        configuration={"k": "v"},
    )
    assert [
        (schema_change.text, schema_change.additive)
        for schema_change in schema_changes(before, after)
    ] == [
        ("column a was renamed to b", False),
        ("column s may be null now", True),
        ("column s.x changed from long to string", False),
        ("column new was added", True),
        ("it is partitioned by b now", False),
    ]
    marked = metadata(column("a"), column("s", inside, 2, nullable=False))
    assert schema_changes(before, marked) == []
    assert "the property k changed" in [
        property_change.text for property_change in property_changes(before, after)
    ]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_that_was_replaced_by_one_of_the_same_columns_stops_the_stream(mode):
    """Its files use other column names since; the number of columns, the properties and the id are unchanged."""
    made = DeltaTable(open_store(f"memory://m/{uuid.uuid4()}"))
    text = f"TABLE t (a BIGINT) USING DELTA TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
    run(f"CREATE {text}", made)
    before = made.snapshot()
    run(f"CREATE OR REPLACE {text}", made)
    run("INSERT INTO t VALUES (1)", made)
    log = StreamLog(made.store, StreamTerms(before.metadata, before.version))
    with pytest.raises(SourceSchemaChangedError, match="column a was replaced by another column"):
        log.files(Position(0, initial=True), Position(3))
    now = made.snapshot()
    with pytest.raises(SourceSchemaChangedError, match="column a was replaced by another column"):
        StreamLog(made.store, StreamTerms(now.metadata, now.version)).check_since(Position(1))


def test_columns_that_are_mapped_under_their_own_names_are_the_same_ones():
    made = DeltaTable(open_store(f"memory://m/{uuid.uuid4()}"))
    run("CREATE TABLE t (a BIGINT, s STRUCT<x: INT>) USING DELTA", made)
    before = made.snapshot().metadata
    run("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", made)
    assert schema_changes(before, made.snapshot().metadata) == []


def _replace_table(table, tmp_path, *paths):
    """Put another table of older files in the table's place, with one commit for each path."""
    other = DeltaTable.create(str(tmp_path / "other"), SCHEMA)
    for path in paths:
        commit(other, add(path))
    for file in Path(other.uri, "_delta_log").iterdir():
        os.utime(file, (1, 1))
    shutil.rmtree(table.uri)
    shutil.move(other.uri, table.uri)


def test_no_file_of_a_table_made_in_the_sources_place_is_given_out(table, tmp_path):
    commit(table, add("a"))
    log = log_of(table)
    _, end = batches(log, Position(1, initial=True), 1)
    _replace_table(table, tmp_path, "b", "c", "d")
    with pytest.raises(SourceReplacedError, match="has id"):
        log.batch_end(end, StreamLimits(), 3)
    with pytest.raises(SourceReplacedError):
        log.files(end, Position(4))


def test_a_source_put_back_from_a_backup_ends_the_stream(table, tmp_path):
    shutil.copytree(table.uri, tmp_path / "backup")
    commit(table, add("a"))
    _, end = batches(log_of(table), Position(1, initial=True), 1)
    log = log_of(table)
    shutil.rmtree(table.uri)
    shutil.move(tmp_path / "backup", table.uri)
    with pytest.raises(SourceReplacedError, match="a different log"):
        log_of(DeltaTable.open(table.uri)).batch_end(end, StreamLimits(), 0)
    commit(table, add("b"))
    commit(table, add("c"))
    with pytest.raises(SourceReplacedError, match="a different log"):
        log.batch_end(end, StreamLimits(), 2)


def test_a_position_that_another_run_reached_is_no_sign_of_a_replaced_source(table):
    log = log_of(table)
    commit(table, add("a"))
    commit(table, add("b"))
    assert log.batch_end(Position(3), StreamLimits(), 0) == Position(3)
