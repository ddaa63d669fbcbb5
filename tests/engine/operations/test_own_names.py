"""Table names: the statement's own table has one version in every position, and so do others."""

import json
import os
from itertools import product

import pytest

from engine.commands.model import Delete
from engine.commands.sql import parse_statement
from engine.errors import RequestError
from engine.operations.named_tables import UnknownNameError
from engine.operations.run import run
from engine.operations.run_options import NeedsSparkError
from engine.operations.script import ScriptError
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.operations.own_names import FORMS, ROWS, SHADOWS
from tests.shares import pairs, share

pytestmark = pytest.mark.timeout(240)

SPELLINGS = (("t", "t"), ("T", "`t`"), ("Shop.`my orders`", "shop.`My Orders`"))


def _make(place, rows="(1, 'a'), (2, 'b'), (3, 'c')"):
    table = DeltaTable(open_store(str(place)))
    run("CREATE TABLE t (id BIGINT, v STRING)", table)
    if rows:
        run(f"INSERT INTO t VALUES {rows}", table)  # noqa: S608 - of this module
    return table


def _rows(table):
    return sorted((row["id"], row["v"]) for row in table.snapshot().to_arrow().to_pylist())


@pytest.fixture
def decoys(tmp_path, monkeypatch):
    """Create tables in the working directory under names that statements use for other tables."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    names = ("t", "T", "orders", "shop.My Orders", "Shop.my orders")
    return [_make(here / name, "(1, 'DECOY')") for name in names]


@pytest.mark.spark
def test_a_statement_reads_its_own_table_under_its_own_name(spark, tmp_path, decoys):
    for number, (form, spelling) in enumerate(pairs(FORMS, SPELLINGS)):
        table, statement = _make(tmp_path / str(number)), form.format(t=spelling[0], r=spelling[1])
        run(statement, table, spark)
        assert _rows(table) == FORMS[form], statement
        assert table.history(1)[0].is_blind_append is False, statement
    assert {decoy.version() for decoy in decoys} == {1}


@pytest.mark.spark
def test_a_common_table_or_an_alias_hides_the_own_name(spark, tmp_path, decoys):
    for number, form in enumerate(SHADOWS):
        table = _make(tmp_path / str(number))
        run(form.format(t="t", r="t"), table, spark)
        assert _rows(table) == SHADOWS[form], form
    assert {decoy.version() for decoy in decoys} == {1}


@pytest.mark.spark
def test_a_location_and_the_own_name_are_one_table(spark, tmp_path, decoys):
    link = tmp_path / "link"
    places = (lambda _: str(link), lambda uri: f"file://{uri}", os.path.relpath)
    for number, (form, place) in enumerate(pairs(FORMS, places)):
        table = _make(tmp_path / str(number))
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / str(number))
        read = place(table.uri)
        run(form.format(t="t", r=f"delta.`{read}`"), table, spark)
        assert _rows(table) == FORMS[form], (form, read)


def test_without_spark_the_own_name_leads_to_no_other_table(tmp_path, decoys):
    for number, (form, spelling) in enumerate(product(FORMS, SPELLINGS)):
        table = _make(tmp_path / str(number))
        with pytest.raises(NeedsSparkError):
            run(form.format(t=spelling[0], r=spelling[1]), table)
        assert _rows(table) == ROWS
    merge = "MERGE INTO t USING t AS s ON s.id = t.id WHEN MATCHED AND t.v = 'b' THEN DELETE"
    planned = run(merge, _make(tmp_path / "merged"), dry_run=True).plan
    assert (planned.facts["rows_deleted"], planned.is_counted) == (1, True)


def test_an_unknown_name_is_no_file_of_the_working_directory(tmp_path, decoys):
    table = _make(tmp_path / "table")
    statements = [form.format(t="mine", r="orders") for form in FORMS]
    statements += [
        "CREATE OR REPLACE TABLE mine CLONE orders",
        "INSERT INTO mine SELECT * FROM delta.`orders`",
        "INSERT INTO mine SELECT * FROM STREAM(orders)",
    ]
    for statement, dry_run in product(statements, (False, True)):
        with pytest.raises(UnknownNameError):
            run(statement, table, dry_run=dry_run)
    for step in ("INSERT INTO orders VALUES (9, 'x')", "CREATE TABLE fresh (id INT)"):
        with pytest.raises(ScriptError) as caught:
            run(f"{step}; DELETE FROM t", table)  # noqa: S608 - of this module
        assert isinstance(caught.value.cause, UnknownNameError)
    assert {decoy.version() for decoy in decoys} == {1}
    assert not (tmp_path / "here/fresh").exists()
    assert _rows(table) == ROWS


@pytest.mark.spark
def test_every_step_of_a_script_calls_its_table_t(spark, tmp_path, decoys):
    table, other = _make(tmp_path / "table"), _make(tmp_path / "other", "")
    statement = (
        f"INSERT INTO delta.`{other.uri}` SELECT * FROM T;"  # noqa: S608 - of this module
        " DELETE FROM t WHERE id = (SELECT max(id) FROM t)"
    )
    run(statement, table, spark)
    assert (_rows(other), _rows(table)) == (ROWS, ROWS[:2])


def test_rows_of_the_program_do_not_hide_the_own_table(tmp_path):
    table = _make(tmp_path / "table")
    with pytest.raises(RequestError, match="have the same name"):
        run("INSERT INTO t SELECT * FROM T", table, sources={"t": [{"id": 1, "v": "x"}]})
    run("INSERT INTO t SELECT * FROM u", table, sources={"u": [{"id": 4, "v": "d"}], "t": []})
    assert len(_rows(table)) == 4


def test_a_command_knows_its_own_name():
    own = "DELETE FROM {} WHERE id = (SELECT max(id) FROM {})"
    for table, read, is_own in (
        ("t", "t", True),
        ("t", "T", True),
        ("a.b", "A.`B`", True),
        ("a.b", "b", False),
        ("b", "a.b", False),
        ("delta.`/x/T`", "delta.`/x/T`", True),
        ("delta.`/x/T`", "delta.`/x/t`", False),
    ):
        command = parse_statement(own.format(table, read))
        assert command.names_itself is is_own, (table, read)
        assert len(command.other_tables_read()) == (not is_own)
    assert Delete(where="id = (SELECT max(id) FROM t)").names_itself


OTHERS = (
    "INSERT INTO t SELECT a.id, b.v FROM {0} a JOIN {1} b ON a.id = b.id",
    "INSERT INTO t SELECT * FROM {0} WHERE id IN (SELECT id FROM {1})",
    "INSERT INTO t WITH c AS (SELECT * FROM {0}) SELECT c.id, d.v FROM c JOIN {1} d ON c.id = d.id",
    "INSERT INTO t REPLACE USING (id) SELECT * FROM {0} WHERE id IN (SELECT id FROM {1})",
    "INSERT INTO t AS q REPLACE ON q.id = s.id (SELECT * FROM {0}) AS s",
    "MERGE INTO t USING (SELECT * FROM {0}) AS s ON s.id = t.id"
    " WHEN MATCHED AND s.id IN (SELECT id FROM {1}) THEN UPDATE SET v = (SELECT max(v) FROM {0})"
    " WHEN NOT MATCHED AND s.id IN (SELECT id FROM {1}) THEN INSERT *",
    "UPDATE t SET v = (SELECT max(v) FROM {1}) WHERE id IN (SELECT id FROM {0})",
    "DELETE FROM t WHERE id IN (SELECT id FROM {0}) AND id NOT IN (SELECT id + 1 FROM {1})",
)
"""Statements that name one other table in two places."""


@pytest.mark.spark
def test_another_table_is_read_at_one_version_under_all_its_names(spark, tmp_path, monkeypatch):
    """Every request for its latest version finds a newer one."""
    turns = ["(1, 'x')", "(2, 'y')"]

    def change(source):
        run(f"DELETE FROM t WHERE true; INSERT INTO t VALUES {turns[0]}", source)  # noqa: S608
        turns.reverse()

    class Restless(DeltaTable):
        def snapshot(self, version=None, timestamp=None):
            seen = super().snapshot(version, timestamp)
            if version is None and timestamp is None:
                change(DeltaTable.open(self.uri))
            return seen

    for number, form in enumerate(share(2, OTHERS)):
        source = _make(tmp_path / f"source{number}", "(1, 'x')")
        link = tmp_path / f"link{number}"
        link.symlink_to(source.uri)
        names = {"s": source.uri, "S2": str(link)}
        versions = [source.version()]

        def resolve(name, names=names):
            return Restless(open_store(names.get(name, name)))

        table = _make(tmp_path / f"table{number}", "(1, 'a'), (2, 'b')")
        expected = _make(tmp_path / f"expected{number}", "(1, 'a'), (2, 'b')")
        quiet = form.format(*[f"delta.`{source.uri}` VERSION AS OF {versions[0]}"] * 2)
        run(quiet, expected, spark)
        run(form.format("s", "S2"), table, spark, resolve=resolve)
        assert _rows(table) == _rows(expected), form
        assert source.version() == versions[0] + 2, form  # it was asked once


@pytest.mark.spark
def test_an_own_name_at_a_version_is_another_version_on_purpose(spark, tmp_path):
    table = _make(tmp_path / "table")
    run("DELETE FROM t WHERE id = 1", table)
    run(
        "INSERT INTO t SELECT * FROM t VERSION AS OF 1 WHERE id NOT IN (SELECT id FROM t)",
        table,
        spark,
    )
    assert _rows(table) == ROWS
    info = json.loads(
        table.store.read(f"_delta_log/{table.version():020d}.json").decode().splitlines()[0]
    )
    assert info["commitInfo"]["isBlindAppend"] is False
