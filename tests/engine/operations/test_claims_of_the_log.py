"""False claims of a log about its files may cost speed, but never a row, a conflict or a row id."""

import json
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import AddFile
from engine.actions.statistics import read_claimed_rows
from engine.commands.definition import Clone
from engine.errors import ConcurrentAppendException, ConflictError, DeletionVectorError
from engine.operations.rows.row_sums import RowSumError, check_moved
from engine.operations.run import run
from engine.schema.write_errors import ConstraintExistsError
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.lying_logs import (
    COUNTS,
    NO_STATISTICS,
    VECTORS,
    add_file,
    commit,
    execute,
    field,
    ids,
    inline_vector,
    make,
    read,
    rows_of,
)

MERGE = "MERGE INTO t USING (VALUES (3, 'z')) AS s (id, v) ON t.id = s.id WHEN MATCHED THEN"
_UPDATE, _DELETE = "UPDATE t SET v = 'z'", "DELETE FROM t"
STATEMENTS = [
    ("DELETE FROM t WHERE id = 3", {3: None}),
    ("DELETE FROM t WHERE id < 4", {0: None, 1: None, 2: None, 3: None}),
    ("UPDATE t SET v = 'z' WHERE id = 3", {3: "z"}),
    (f"{MERGE} UPDATE SET * WHEN NOT MATCHED THEN INSERT *", {3: "z"}),
    (f"{MERGE} DELETE", {3: None}),
]


def _apply_changes(rows: dict[int, str], changes: dict[int, str | None]) -> dict[int, str]:
    after = {key: changes.get(key, value) for key, value in rows.items()}
    return {key: value for key, value in after.items() if value is not None}


def _content(root) -> dict[int, str]:
    rows = read(root)
    assert len(rows) == len({row["id"] for row in rows})  # no row occurs twice
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.parametrize("configuration", [None, VECTORS], ids=["rewritten", "vectors"])
def test_a_claimed_number_of_rows_removes_no_file_and_no_row(tmp_path, configuration):
    claims = [json.dumps({"numRecords": count}) for count in COUNTS] + NO_STATISTICS
    before = dict.fromkeys(range(10), "x")
    for number, stats in enumerate(claims):
        statement, changes = STATEMENTS[number % len(STATEMENTS)]
        for case, (text, changed) in enumerate(
            [(statement, changes), STATEMENTS[0]] if number >= len(COUNTS) else STATEMENTS
        ):
            root = tmp_path / f"{number}-{case}"
            root.mkdir()
            make(root, add_file(root, "a", rows_of(range(10)), stats), configuration=configuration)
            execute(root, text)
            assert _content(root) == _apply_changes(before, changed), (stats[:60], text)


def test_a_count_of_the_live_rows_of_a_file_does_not_make_its_values_null(tmp_path):
    """Trino's ANALYZE counts the rows left by a vector, and keeps the nulls of all rows."""
    fields = [("id", "long"), ("b", "boolean"), ("v", "string")]
    rows = pa.table({"id": range(10), "b": [None] * 3 + [True] * 7, "v": [None] * 3 + ["x"] * 7})
    stats = {"numRecords": 3, "nullCount": {"id": 0, "b": 3, "v": 3}}
    for number, condition in enumerate(("b = true", "b IS NOT NULL", "v = 'x'", "v >= 'a'")):
        root = tmp_path / str(number)
        root.mkdir()
        masked = add_file(root, "a", rows, stats, deletionVector=inline_vector(range(7)))
        make(root, masked, fields=fields, configuration=VECTORS)
        assert [row["id"] for row in read(root, condition)] == [7, 8, 9], condition
        assert DeltaTable.open(str(root)).snapshot().row_count == 3
        execute(root, " ".join([_DELETE, "WHERE id < 9 AND", condition]))
        assert ids(root) == [9], condition


def test_a_delete_of_every_row_leaves_none_even_if_the_log_makes_false_claims(tmp_path):
    for number, count in enumerate(COUNTS):
        root = tmp_path / str(number)
        root.mkdir()
        add = add_file(root, "a", rows_of(range(10)), {"numRecords": count})
        make(root, add, configuration=VECTORS)
        execute(root, "DELETE FROM t WHERE id >= 0")
        assert read(root) == [], count


class _Meanwhile(TransactionObserver):
    """A second commit right before a transaction's own."""

    def __init__(self, act):
        self._act, self._done = act, False

    def staged(self, txn):  # noqa: ARG002
        if not self._done:
            self._done = True
            self._act()


SERIALIZABLE = {**VECTORS, "delta.isolationLevel": "Serializable"}


def test_rows_of_a_winner_that_claims_fewer_are_tested_all_the_same(tmp_path):
    for number, count in enumerate(COUNTS):
        root = tmp_path / str(number)
        root.mkdir()
        own = add_file(root, "a", rows_of(range(10)), {"numRecords": 10})
        make(root, own, configuration=SERIALIZABLE)
        add = add_file(root, "b", rows_of(range(100, 110)), {"numRecords": count})
        meanwhile = _Meanwhile(
            lambda root=root, add=add: commit(root, 1, add, isBlindAppend=True, readVersion=0)
        )
        with pytest.raises(ConcurrentAppendException):
            execute(root, "DELETE FROM t WHERE id = 3 OR id = 109", observer=meanwhile)
        assert ids(root) == [*range(10), *range(100, 110)]


def test_two_deletes_of_a_file_with_a_false_row_count_lose_no_other_rows(tmp_path):
    for number, count in enumerate(COUNTS):
        root = tmp_path / str(number)
        root.mkdir()
        make(
            root,
            add_file(root, "a", rows_of(range(10)), {"numRecords": count}),
            configuration=VECTORS,
        )
        other = _Meanwhile(lambda root=root: execute(root, "DELETE FROM t WHERE id = 4"))
        execute(root, "DELETE FROM t WHERE id = 3", observer=other)
        assert ids(root) == [0, 1, 2, 5, 6, 7, 8, 9], count


def test_no_claimed_number_of_rows_hides_a_lost_one_from_the_sums(tmp_path):
    for number, count in enumerate(COUNTS):
        root = tmp_path / str(number)
        root.mkdir()
        add = add_file(root, "a", rows_of(range(10)), {"numRecords": count})
        snapshot = make(root, add, configuration=VECTORS).snapshot()
        check_moved(snapshot, snapshot.add_files(), 10)
        for written in (0, 1, 3, 9, 11, 1000):
            with pytest.raises(RowSumError):
                check_moved(snapshot, snapshot.add_files(), written)


# --- any log, against a model that reads no statistics ---

CLAIMS = st.sampled_from(COUNTS)
LINES = st.lists(
    st.tuples(
        st.integers(1, 6),  # rows
        CLAIMS,
        st.sampled_from([None, True, False, "no"]),  # tightBounds
        st.booleans(),  # the vector hides the first row
    ),
    min_size=1,
    max_size=3,
)
CONDITIONS = st.sampled_from(["id = {n}", "id < {n}", "id >= {n}", "id IN ({n}, 0)", "v = 'x'"])


def _matches(condition: str, n: int, key: int) -> bool:
    tests = {"id = {n}": key == n, "id < {n}": key < n, "id >= {n}": key >= n}
    return {**tests, "id IN ({n}, 0)": key in (n, 0), "v = 'x'": True}[condition]


def _make_lying(root, lines, bounds, *, by_vector):
    adds, model, start = [], {}, 0
    for number, (count, claim, tight, hides) in enumerate(lines):
        keys = range(start, start + count)
        start += count
        stats = {"numRecords": claim, **bounds(keys)}
        stats |= {} if tight is None else {"tightBounds": tight}
        hidden = by_vector and hides and count > 1
        fields = {"deletionVector": inline_vector([0])} if hidden else {}
        adds.append(add_file(root, f"f{number}", rows_of(keys), stats, **fields))
        model |= dict.fromkeys(keys[1:] if hidden else keys, "x")
    make(root, *adds, configuration=VECTORS if by_vector else None)
    return model


def _true_bounds(keys):
    low, high = {"id": keys[0], "v": "x"}, {"id": keys[-1], "v": "x"}
    return {"minValues": low, "maxValues": high, "nullCount": {"id": 0, "v": 0}}


@given(LINES, CONDITIONS, st.integers(0, 14), st.booleans(), st.booleans())
def test_counts_change_no_outcome(tmp_path_factory, lines, condition, n, by_vector, updates):
    root = tmp_path_factory.mktemp("t")
    model = _make_lying(root, lines, _true_bounds, by_vector=by_vector)
    assert _content(root) == model
    matched = {key for key in model if _matches(condition, n, key)}
    text = condition.format(n=n)
    assert {row["id"] for row in read(root, text)} == matched
    execute(root, " ".join([_UPDATE if updates else _DELETE, "WHERE", text]))
    changes = dict.fromkeys(matched, "z" if updates else None)
    assert _content(root) == _apply_changes(model, changes)


LYING_BOUNDS = st.tuples(
    st.sampled_from([None, -5, 0, 3, 99, "x", 2.5, [1]]),
    st.sampled_from([None, -5, 0, 3, 99, "x", 2.5, [1]]),
    st.sampled_from([None, 0, 1, 3, 10, -1, "0"]),
)


@given(LINES, LYING_BOUNDS, CONDITIONS, st.integers(0, 14), st.booleans(), st.booleans())
def test_false_bounds_hide_rows_from_a_condition_but_lose_none_beyond_it(
    tmp_path_factory, lines, bounds, condition, n, by_vector, updates
):
    """A statement changes only matching rows, each at most once; a bound may hide some from it."""
    root = tmp_path_factory.mktemp("t")
    low, high, nulls = bounds
    stats = {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": nulls}}
    model = _make_lying(root, lines, lambda _: stats, by_vector=by_vector)
    matched = {key for key in model if _matches(condition, n, key)}
    text = condition.format(n=n)
    assert {row["id"] for row in read(root, text)} <= matched
    execute(root, " ".join([_UPDATE if updates else _DELETE, "WHERE", text]))
    after = _content(root)
    assert {key: value for key, value in after.items() if key not in matched} == {
        key: value for key, value in model.items() if key not in matched
    }
    assert after.keys() == model.keys() if updates else after.keys() <= model.keys()


@given(LINES, st.integers(0, 14), st.integers(0, 14), st.booleans())
def test_counts_change_no_conflict(tmp_path_factory, lines, mine, theirs, by_vector):
    """Two concurrent deletes end like sequential ones, or the later one conflicts."""
    root = tmp_path_factory.mktemp("t")
    model = _make_lying(root, lines, _true_bounds, by_vector=by_vector)
    other = _Meanwhile(lambda: execute(root, " ".join([_DELETE, f"WHERE id >= {theirs}"])))
    after = {key: value for key, value in model.items() if key < theirs}
    try:
        execute(root, " ".join([_DELETE, f"WHERE id = {mine}"]), observer=other)
        after.pop(mine, None)
    except ConflictError:
        pass
    if mine not in model:  # nothing is staged: the other one did not run, or ran alone
        assert _content(root) in (after, model)
    else:
        assert _content(root) == after


# --- row ids ---

TRACKED = {**VECTORS, "delta.enableRowTracking": "true"}
ROW_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row_version",
}


def _ranges(table, rows):
    adds = table.snapshot().add_files()
    taken = Counter()
    for add in adds:
        taken.update(range(add.base_row_id, add.base_row_id + rows[add.path]))
    return taken


def test_row_tracking_gives_every_row_an_id_of_its_own(tmp_path):
    for number, count in enumerate(COUNTS):
        root = tmp_path / str(number)
        root.mkdir()
        adds = [
            add_file(root, name, rows_of(range(start, start + 10)), {"numRecords": count})
            for name, start in (("a", 0), ("b", 10))
        ]
        table = make(root, *adds, configuration=VECTORS)
        execute(root, "ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
        taken = _ranges(table, {"a": 10, "b": 10})
        assert max(taken.values()) == 1, (count, taken)


def test_a_false_count_and_a_false_mark_give_no_row_id_twice(tmp_path):
    mark = {
        "domainMetadata": {
            "domain": "delta.rowTracking",
            "configuration": '{"rowIdHighWaterMark":-1}',
            "removed": False,
        }
    }
    for number, count in enumerate(COUNTS):
        for lands_late in (False, True):
            root = tmp_path / f"{number}{lands_late}"
            root.mkdir()
            stats = {"numRecords": count}
            ours = {"baseRowId": 0, "defaultRowCommitVersion": 0}
            add = add_file(root, "a", rows_of(range(10)), stats, **ours)
            first = () if lands_late else (add, mark)
            table = make(root, *first, configuration={**TRACKED, **ROW_COLUMNS})
            late = _Meanwhile(lambda root=root, add=add: commit(root, 1, add, mark))
            options = {"observer": late} if lands_late else {}
            execute(root, "INSERT INTO t VALUES (100, 'y')", **options)
            new = [f for f in table.snapshot().add_files() if f.path != "a"]
            assert [f.base_row_id >= 10 for f in new] == [True], (count, lands_late)


def test_staged_files_get_as_many_row_ids_as_they_have_rows(tmp_path):
    """The caller's count may be false or missing; ids that it assigns are counted too."""
    for number, count in enumerate(COUNTS):
        for own_ids in ({}, {"base_row_id": 5, "default_row_commit_version": 0}):
            root = tmp_path / f"{number}-{len(own_ids)}"
            root.mkdir()
            table = make(root, configuration={**TRACKED, **ROW_COLUMNS})
            txn = table.start_transaction()
            for name, ids_given in (("a", own_ids), ("b", {})):
                add = add_file(root, name, rows_of(range(10)), {"numRecords": count})["add"]
                told = AddFile(
                    path=name,
                    partition_values={},
                    size=add["size"],
                    modification_time=1,
                    data_change=True,
                    stats=add["stats"],
                    **ids_given,
                )
                txn.stage(told)
            txn.commit("WRITE")
            execute(root, "INSERT INTO t VALUES (100, 'y')")
            rows = {add.path: 10 if add.path in "ab" else 1 for add in table.snapshot().add_files()}
            assert max(_ranges(table, rows).values()) == 1, (count, own_ids)
            assert all(read_claimed_rows(add.stats) for add in table.snapshot().add_files())


def test_restore_counts_rows_before_they_get_ids(tmp_path):
    root = tmp_path
    adds = [
        add_file(root, name, rows_of(range(start, start + 10)), {"numRecords": 0})
        for name, start in (("a", 0), ("b", 10))
    ]
    table = make(root, *adds, configuration=VECTORS)
    execute(root, "DELETE FROM t")
    execute(root, "ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    execute(root, "RESTORE TABLE t TO VERSION AS OF 0")
    assert max(_ranges(table, {"a": 10, "b": 10}).values()) == 1


def test_a_clone_counts_rows_before_they_get_ids(tmp_path):
    root = tmp_path / "source"
    root.mkdir()
    adds = [
        add_file(root, name, rows_of(range(start, start + 10)), {"numRecords": 0})
        for name, start in (("a", 0), ("b", 10))
    ]
    make(root, *adds, configuration=VECTORS)
    target = DeltaTable(open_store(str(tmp_path / "target")))
    run(Clone(str(root), deep=True), target)
    files = {add.path: 10 for add in target.snapshot().add_files()}
    assert max(_ranges(target, files).values()) == 1


# --- vectors and names ---


def test_a_vector_that_names_rows_beyond_its_file_is_refused(tmp_path):
    vector = inline_vector([3, 10])
    add = add_file(tmp_path, "a", rows_of(range(10)), {"numRecords": 10}, deletionVector=vector)
    make(tmp_path, add, configuration=VECTORS)
    for statement in ("DELETE FROM t WHERE id = 4", "UPDATE t SET v = 'z' WHERE id = 4"):
        with pytest.raises(DeletionVectorError, match="deletes row 10, but the file has 10 rows"):
            execute(tmp_path, statement)
    with pytest.raises(DeletionVectorError, match="deletes row 10, but the file has 10 rows"):
        read(tmp_path)


def test_an_inline_vector_is_one_file_with_and_without_an_offset(tmp_path):
    add = add_file(tmp_path, "a", rows_of(range(4)), deletionVector=inline_vector([0], offset=0))
    kept = make(tmp_path, add, configuration=VECTORS)
    kept.snapshot()
    old = {"path": "a", "dataChange": True, "deletionVector": inline_vector([0])}
    new = add_file(tmp_path, "a", rows_of(range(4)), deletionVector=inline_vector([0, 1]))
    commit(tmp_path, 1, {"remove": old}, new, operation="DELETE")
    assert ids(tmp_path) == [2, 3]
    assert sorted(row["id"] for row in kept.snapshot().to_arrow().to_pylist()) == [2, 3]
    assert kept.snapshot().add_files()[0].deletion_vector.offset is None


def test_names_of_a_disabled_mapping_are_ignored(tmp_path):
    """A tool copied the schema of a table with mapped columns, but not the mode."""
    fields = [
        field(name, "long", **{"delta.columnMapping.id": i, "delta.columnMapping.physicalName": p})
        for i, (name, p) in enumerate([("id", "w"), ("w", "id")])
    ]
    stats = {
        "numRecords": 2,
        "minValues": {"id": 1, "w": 100},
        "maxValues": {"id": 2, "w": 200},
        "nullCount": {"id": 0, "w": 0},
    }
    rows = rows_of([1, 2]).drop(["v"]).append_column("w", [[100, 200]])
    make(tmp_path, add_file(tmp_path, "a", rows, stats), fields=fields)
    assert [row["w"] for row in read(tmp_path, "id = 1")] == [100]
    assert len(read(tmp_path, "id < 50 OR id IS NULL")) == 2
    execute(tmp_path, "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    assert read(tmp_path) == [{"id": 1, "w": 100}, {"id": 2, "w": 200}]
    execute(tmp_path, "DELETE FROM t WHERE id = 1")
    assert read(tmp_path) == [{"id": 2, "w": 200}]


def test_a_constraint_of_another_spelling_is_the_same_constraint(tmp_path):
    """DROP CONSTRAINT ignores case: a second spelling would go unchecked."""
    make(tmp_path, configuration={"delta.constraints.Positive": "id > 0"})
    with pytest.raises(ConstraintExistsError):
        execute(tmp_path, "ALTER TABLE t ADD CONSTRAINT positive CHECK (id < 5)")
    execute(tmp_path, "ALTER TABLE t DROP CONSTRAINT POSITIVE")
    assert DeltaTable.open(str(tmp_path)).snapshot().metadata.configuration == {}
