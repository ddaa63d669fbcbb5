"""Transactions of several statements on one table: one commit, or nothing."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.actions.files import AddFile, RemoveFile
from engine.catalog.embedded import EmbeddedCatalog
from engine.commands.model import Delete
from engine.commands.sql import parse_statement
from engine.errors import ConflictError, RequestError, StatementError
from engine.log.commits import read_commit
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.operations.script import ScriptError
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver

SCHEMA = StructType((StructField("k", LONG), StructField("v", LONG), StructField("p", STRING)))
NO_VECTORS = {"delta.enableDeletionVectors": "false"}
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
ROWS = "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b'), (4, 40, 'b')"


def _create(path, properties=None, partitioned=False):
    columns = ("p",) if partitioned else ()
    table = DeltaTable.create(str(path), SCHEMA, columns, properties=properties)
    run(ROWS, table)
    return table


@pytest.fixture
def table(tmp_path):
    return _create(tmp_path / "t")


def _atomic(*statements):
    return f"BEGIN ATOMIC {'; '.join(statements)}; END"


def _rows(table):
    return Counter(tuple(row.values()) for row in table.snapshot().to_arrow().to_pylist())


def _files(path):
    return {
        file.name for file in path.rglob("*") if file.is_file() and "_delta_log" not in str(file)
    }


class Interruption(TransactionObserver):
    """An observer whose other writer commits once, when the transaction has staged everything."""

    def __init__(self, path, *statements):
        self.path, self.statements = path, list(statements)

    def staged(self, _txn):
        statements, self.statements = self.statements, []
        for statement in statements:
            run(statement, DeltaTable.open(str(self.path)))


def test_statements_read_the_results_of_earlier_ones_and_commit_one_version(tmp_path, table):
    before = table.version()
    command = parse_statement(
        _atomic(
            "DELETE FROM t WHERE k = 2",
            "INSERT INTO t VALUES (2, 21, 'a'), (5, 50, 'c')",
            "UPDATE t SET v = v + 1 WHERE v > 20",
            "MERGE INTO t USING (VALUES (5, 2)) s(k, v) ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET v = t.v * s.v",
        )
    )
    assert parse_statement(command.statement()) == command
    result = run(command, table)
    assert result.versions == (before + 1,) == (table.version(),)
    assert _rows(table) == Counter(
        [(1, 10, "a"), (2, 22, "a"), (3, 31, "b"), (4, 41, "b"), (5, 102, "c")]
    )
    actions = read_commit(table.store, table.version()).actions
    named = {action.path for action in actions if isinstance(action, AddFile | RemoveFile)}
    assert _files(tmp_path / "t") == named, "files that later statements replaced are gone"


def test_a_statement_that_fails_leaves_neither_a_version_nor_a_file(tmp_path):
    table = _create(tmp_path / "t", {"delta.constraints.small": "v < 1000"})
    before, files = table.version(), _files(tmp_path / "t")
    with pytest.raises(ScriptError, match=r"Step 3 failed.*Nothing was committed") as caught:
        run(_atomic("DELETE FROM t WHERE k = 1", ROWS, "UPDATE t SET v = 5000 WHERE k = 4"), table)
    assert "transaction again" in caught.value.remedy
    assert (table.version(), _files(tmp_path / "t")) == (before, files)


def test_two_transactions_that_replace_a_key_never_leave_two_rows(tmp_path, table):
    replace_key = _atomic("DELETE FROM t WHERE k = 7", "INSERT INTO t VALUES (7, {}, 'x')")
    other = Interruption(tmp_path / "t", replace_key.format(1))
    with pytest.raises(ConflictError):
        run(replace_key.format(2), table, observer=other)
    assert _rows(table)[(7, 1, "x")] == 1
    other = Interruption(tmp_path / "t", replace_key.format(3))
    run(replace_key.format(4), table, observer=other, retries=2)
    assert [row for row in _rows(table).elements() if row[0] == 7] == [(7, 4, "x")]


def test_transactions_on_different_rows_of_one_file_both_commit(tmp_path, table):
    other = Interruption(
        tmp_path / "t", _atomic("UPDATE t SET v = 11 WHERE k = 1", "DELETE FROM t WHERE k = 2")
    )
    run(
        _atomic("UPDATE t SET v = 31 WHERE k = 3", "DELETE FROM t WHERE k = 4"),
        table,
        observer=other,
    )
    assert _rows(table) == Counter([(1, 11, "a"), (3, 31, "b")])


def test_a_condition_of_any_statement_conflicts_with_rows_that_match_it(tmp_path):
    table = _create(tmp_path / "t", {"delta.isolationLevel": "Serializable"})
    narrow, matching = "UPDATE t SET v = 0 WHERE k = 1", "DELETE FROM t WHERE v = 99"
    for statements in ((narrow, matching), (matching, narrow)):
        other = Interruption(tmp_path / "t", "INSERT INTO t VALUES (50, 99, 'z')")
        with pytest.raises(ConflictError):
            run(_atomic(*statements), table, observer=other)


def test_a_rerun_of_the_same_job_recognizes_the_transaction(table):
    options = RunOptions(txn_id="job", since_version=table.version())
    statement = _atomic("DELETE FROM t WHERE k = 1", "INSERT INTO t VALUES (9, 9, 'z')")
    first, again = (run(statement, table, None, options) for _ in range(2))
    assert (again.recognized, again.version) == (True, first.version) == (True, table.version())


def test_statements_that_a_transaction_cannot_hold_are_refused_by_name(tmp_path, table):
    before = table.version()
    other = DeltaTable.create(str(tmp_path / "other"), SCHEMA)
    refused = {
        "OPTIMIZE t": "Optimize cannot be part of a transaction",
        "ALTER TABLE t ADD COLUMNS (w INT)": "cannot be part of a transaction",
        f"TRUNCATE TABLE delta.`{other.uri}`": "cannot be part of a transaction",
        Delete(table=other.uri).statement(): "a statement changes",
    }
    for statement, words in refused.items():
        with pytest.raises(RequestError, match=words):
            run(_atomic("DELETE FROM t WHERE k = 1", statement), table)
    with pytest.raises(RequestError, match="The transaction has 51 steps"):
        run(_atomic(*["DELETE FROM t"] * 51), table)
    for text in (
        "BEGIN ATOMIC DELETE FROM t; DELETE FROM t",
        "BEGIN ATOMIC DELETE FROM t END",
        "BEGIN ATOMIC BEGIN ATOMIC DELETE FROM t; END; END",
        "BEGIN TRANSACTION",
    ):
        with pytest.raises(StatementError):
            parse_statement(text)
    assert table.version() == before


def test_rows_keep_their_ids_and_new_ones_get_free_ids(tmp_path):
    table = _create(tmp_path / "t", TRACKED)
    other = Interruption(tmp_path / "t", "INSERT INTO t VALUES (8, 80, 'c')")
    run(
        _atomic(
            "UPDATE t SET v = 0 WHERE k = 1",
            "INSERT INTO t VALUES (9, 90, 'c')",
            "DELETE FROM t WHERE k = 9",
        ),
        table,
        observer=other,
    )
    adds = table.snapshot().add_files()
    spans = sorted((add.base_row_id, add.base_row_id + 10) for add in adds)
    assert len({first for first, _ in spans}) == len(adds)
    with pytest.raises(ScriptError, match="gives new ones their ids at the commit"):
        run(_atomic("INSERT INTO t VALUES (9, 90, 'c')", "UPDATE t SET v = 1 WHERE k = 9"), table)


def test_a_managed_table_commits_a_transaction_as_one_ratified_version(tmp_path):
    catalog = EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "lake"))
    table = DeltaTable.create("main.sales.orders", SCHEMA, catalog=catalog)
    run(ROWS, table)
    run(_atomic("DELETE FROM t WHERE k < 3", "UPDATE t SET v = 0 WHERE k = 3"), table)
    again = DeltaTable.open("main.sales.orders", catalog=catalog)
    assert again.version() == 2
    assert _rows(again) == Counter([(3, 0, "b"), (4, 40, "b")])


def test_change_files_of_several_statements_are_refused(tmp_path):
    table = _create(tmp_path / "t", {"delta.enableChangeDataFeed": "true"})
    run(_atomic("INSERT INTO t VALUES (9, 90, 'c')", "DELETE FROM t WHERE k = 1"), table)
    with pytest.raises(ScriptError, match="change data feed"):
        run(_atomic("INSERT INTO t VALUES (8, 80, 'c')", "UPDATE t SET v = 1 WHERE k = 2"), table)
    assert (8, 80, "c") not in _rows(table)


_KEYS = st.integers(1, 5)
_CONDITIONS = st.one_of(
    st.builds("k = {}".format, _KEYS),
    st.builds("v > {}".format, st.integers(0, 50)),
    st.builds("p = '{}'".format, st.sampled_from("abc")),
)
_STATEMENTS = st.one_of(
    st.builds("DELETE FROM t WHERE {}".format, _CONDITIONS),
    st.builds("UPDATE t SET v = v + {} WHERE {}".format, _KEYS, _CONDITIONS),
    st.builds("UPDATE t SET k = {} WHERE {}".format, _KEYS, _CONDITIONS),
    st.builds("INSERT INTO t VALUES ({}, {}, '{}')".format, _KEYS, _KEYS, st.sampled_from("abc")),
    st.builds(
        "MERGE INTO t USING (VALUES ({0}, {1})) s(k, v) ON t.k = s.k AND t.v < 30 WHEN MATCHED THEN "
        "UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (s.k, s.v, 'm')".format,
        _KEYS,
        _KEYS,
    ),
)
_SEVERAL = st.lists(_STATEMENTS, min_size=1, max_size=4)


def _apply(path, *sides):
    table = _create(path, NO_VECTORS)
    for side in sides:
        for statement in side:
            run(statement, table)
    return _rows(table)


@given(
    own=_SEVERAL,
    others=_SEVERAL,
    properties=st.sampled_from([{}, NO_VECTORS, TRACKED, MAPPED]),
    level=st.sampled_from(["Serializable", "WriteSerializable"]),
    partitioned=st.booleans(),
    joined=st.sampled_from(["own", "others", "both"]),
)
@settings(deadline=None)
def test_a_transaction_that_commits_is_serial_with_the_other_writer(
    tmp_path_factory, own, others, properties, level, partitioned, joined
):
    path = tmp_path_factory.mktemp("serial")
    table = _create(path / "t", {**properties, "delta.isolationLevel": level}, partitioned)
    own = own[:1] if joined == "others" else own
    other = Interruption(path / "t", *(others if joined == "own" else [_atomic(*others)]))
    try:
        result = run(own[0] if joined == "others" else _atomic(*own), table, observer=other)
    except ScriptError as error:
        if "gives new ones their ids" not in str(error):
            raise
        return
    except ConflictError:
        assert _rows(table) == _apply(path / "winner", others)
        return
    outcomes = [_apply(path / "after", others, own)]
    if level == "WriteSerializable" or result.version is None:
        outcomes.append(_apply(path / "before", own, others))
    assert _rows(table) in outcomes
