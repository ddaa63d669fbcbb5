"""Transactions over several managed tables: a commit to each of them, or to none."""

# ruff: noqa: S608 - the statements are built from names and numbers of this file

import random
import threading

import pytest

from engine.catalog.embedded import EmbeddedCatalog
from engine.errors import (
    CatalogError,
    CommitOutcomeUnknownError,
    ConflictError,
    EngineError,
    RequestError,
    StorageError,
)
from engine.log.commits import read_commit
from engine.log.paths import LOG_DIRECTORY
from engine.operations.run import run
from engine.operations.script import ScriptError
from engine.schema.types import LONG, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.catalog.catalogs import ModelCatalog, WeatherCatalog, weather_chance
from tests.engine.transaction.tables import FakeClock
from tests.shares import share

SCHEMA = StructType((StructField("k", LONG), StructField("v", LONG)))
NAMES = ("m.s.a", "m.s.b", "m.s.c")
KEYS, START = range(6), 100
SERIALIZABLE = {"delta.isolationLevel": "Serializable"}


class Lake:
    """Three tables with the same rows in one catalog."""

    def __init__(self, catalog, properties=None):
        self.catalog = catalog
        rows = ", ".join(f"({key}, {START})" for key in KEYS)
        for name in NAMES:
            table = DeltaTable.create(name, SCHEMA, properties=properties, catalog=catalog)
            run(f"INSERT INTO t VALUES {rows}", table)

    def open(self, name):
        return DeltaTable.open(name, catalog=self.catalog, clock=FakeClock())

    def run(self, *statements, opens=None, spark=None, **options):
        """Run a transaction at the first table that a statement changes."""
        opens = opens or self.open
        text = f"BEGIN ATOMIC {'; '.join(statements)}; END"
        first = next(word for word in text.split() if word in NAMES)
        return run(text, opens(first), spark, open_changed=opens, resolve=opens, **options)

    def values(self, name):
        rows = self.open(name).snapshot().to_arrow().to_pylist()
        values = {row["k"]: row["v"] for row in rows}
        assert len(values) == len(rows), "no row is there twice"
        return values

    def versions(self):
        return [self.open(name).version() for name in NAMES]

    def files(self, name):
        return {file.path for file in self.open(name).store.list_all()}


@pytest.fixture
def lake(tmp_path):
    return Lake(EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "lake")))


class Interruption(TransactionObserver):
    """Another writer commits when the transaction has staged everything, once."""

    def __init__(self, act):
        self.act, self.failures = act, []

    def staged(self, _txn):
        act, self.act = self.act, None
        if act is not None:
            act()

    def failed(self, txn, error):
        self.failures.append((txn.table.uri, error))


def _move(source, target, key=1, amount=5):
    return (
        f"UPDATE {source} SET v = v - {amount} WHERE k = {key}",
        f"UPDATE {target} SET v = v + {amount} WHERE k = {key}",
    )


def test_every_table_gets_one_commit_that_names_the_transaction(lake):
    result = lake.run(
        *_move("m.s.a", "m.s.b"),
        "DELETE FROM m.s.c WHERE k = 77",
        txn_id="one",
    )
    assert lake.versions() == [2, 2, 2]
    assert result.version == 2
    assert lake.values("m.s.a")[1] == 95
    assert lake.values("m.s.b")[1] == 105
    for name in NAMES:
        info = lake.open(name).history(1)[0]
        assert info.operation == "TRANSACTION"
        assert info.tags == {"lakeui.transactionId": "one", "lakeui.transactionTables": "3"}
    again = lake.run(*_move("m.s.a", "m.s.b"), txn_id="one", since_version=1)
    assert again.recognized
    assert lake.versions() == [2, 2, 2]


def test_an_application_that_wrote_to_one_of_the_tables_alone_is_refused(lake):
    move, written = _move("m.s.a", "m.s.b"), ("app", 5)
    lake.run(*move, application=("app", 4))
    for name in ("m.s.a", "m.s.b"):
        run("INSERT INTO t VALUES (50, 1)", lake.open(name), application=written)
        both = lake.versions()[:2] == [3, 3]
        if not both:
            with pytest.raises(RequestError, match="has written version 5 to") as refused:
                lake.run(*move, application=written)
            assert refused.value.field == "application"
    assert lake.run(*move, application=written).version is None, "both have it"
    assert lake.versions() == [3, 3, 1]
    lake.run(*move, application=("app", 6))
    assert lake.values("m.s.a")[1] == START - 10


@pytest.mark.parametrize("place", [0, 1])
def test_a_winner_at_either_table_is_rebased_over_if_its_rows_are_others(lake, place):
    other = NAMES[place]
    winner = Interruption(lambda: run("UPDATE t SET v = 7 WHERE k = 3", lake.open(other)))
    result = lake.run(*_move("m.s.a", "m.s.b"), observer=winner)
    assert len(result.resolved) == 1
    assert lake.values(other)[3] == 7
    assert (lake.values("m.s.a")[1], lake.values("m.s.b")[1]) == (95, 105)


@pytest.mark.parametrize("place", [0, 1])
def test_a_conflict_at_either_table_leaves_nothing_anywhere(lake, place):
    other = NAMES[place]
    winner = Interruption(lambda: run("UPDATE t SET v = 7 WHERE k = 1", lake.open(other)))
    before = {name: lake.files(name) for name in NAMES if name != other}
    with pytest.raises(ConflictError):
        lake.run(*_move("m.s.a", "m.s.b"), observer=winner)
    assert {name: lake.files(name) for name in before} == before
    assert lake.values(other)[1] == 7
    assert sum(lake.versions()) == 4
    winner.act = lambda: run("UPDATE t SET v = 8 WHERE k = 1", lake.open(other))
    lake.run(*_move("m.s.a", "m.s.b"), observer=winner, retries=1)
    assert {lake.values("m.s.a")[1], lake.values("m.s.b")[1]} == (
        {3, 105} if not place else {95, 13}
    )


def test_a_failed_statement_leaves_nothing_anywhere(lake):
    before = {name: lake.files(name) for name in NAMES}
    with pytest.raises(ScriptError, match="Step 2"):
        lake.run("INSERT INTO m.s.a VALUES (50, 1)", "UPDATE m.s.b SET nothing = 1")
    assert {name: lake.files(name) for name in NAMES} == before


def test_transfers_of_several_threads_on_rows_of_one_file_all_land(lake):
    errors = []

    def move(thread):
        for turn in range(5):
            try:
                lake.run(*_move("m.s.a", "m.s.b", key=thread, amount=turn))
            except EngineError as error:
                errors.append(error)

    threads = [threading.Thread(target=move, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert lake.versions()[:2] == [21, 21]
    assert {key: lake.values("m.s.a")[key] for key in range(4)} == dict.fromkeys(range(4), 90)
    assert {key: lake.values("m.s.b")[key] for key in range(4)} == dict.fromkeys(range(4), 110)


def _go_off(own, other):
    return (
        f"MERGE INTO {own} AS t USING {other} s ON t.k = s.k AND t.k = 1 AND s.v > 0 "
        "WHEN MATCHED THEN UPDATE SET v = 0"
    )


def _skew(lake, spark):
    """Two doctors go off duty, each at one table, because the other one is still on duty."""
    first, second = _go_off("m.s.a", "m.s.b"), _go_off("m.s.b", "m.s.a")
    lake.run(first, spark=spark, observer=Interruption(lambda: lake.run(second, spark=spark)))
    return lake.values("m.s.a")[1], lake.values("m.s.b")[1]


@pytest.mark.spark
def test_serializable_prevents_write_skew_over_two_tables(tmp_path, lake, spark):
    assert _skew(lake, spark) == (0, 0), "WriteSerializable allows it"
    strict = Lake(
        EmbeddedCatalog(tmp_path / "strict.db", str(tmp_path / "strict")), properties=SERIALIZABLE
    )
    with pytest.raises(ConflictError):
        _skew(strict, spark)
    assert (strict.values("m.s.a")[1], strict.values("m.s.b")[1]) == (START, 0)
    read = ("INSERT INTO m.s.a SELECT k + 10, v FROM m.s.c", "UPDATE m.s.b SET v = 1 WHERE k = 2")

    def run_beside(statement):
        act = Interruption(lambda: run(statement, strict.open("m.s.c"), spark))
        return strict.run(*read, spark=spark, observer=act)

    for change in ("DELETE FROM t WHERE k = 5", "INSERT INTO t VALUES (55, 1)"):
        with pytest.raises(ConflictError):
            run_beside(change)
    run("DELETE FROM t WHERE k = 55", strict.open("m.s.c"))
    other = lake.open("m.s.c")

    def open_table(name):
        return other if name == "m.s.c" else strict.open(name)

    grows = Interruption(lambda: run("DELETE FROM t WHERE k = 4", lake.open("m.s.c")))
    strict.run(*read, opens=open_table, spark=spark, observer=grows)  # another catalog's table
    run("DELETE FROM t WHERE k > 6", strict.open("m.s.a"))
    run_beside("OPTIMIZE t")
    assert len(strict.values("m.s.a")) == len(KEYS) + len(KEYS) - 1


@pytest.mark.spark
def test_one_serializable_table_makes_reads_of_all_changed_tables_serializable(lake, spark):
    run(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')",
        lake.open("m.s.a"),
    )
    move = (_go_off("m.s.a", "m.s.b"), "UPDATE m.s.b SET v = 1 WHERE k = 2")
    for change in ("UPDATE t SET v = 0 WHERE k = 1", "INSERT INTO t VALUES (55, 1)"):
        winner = Interruption(lambda text=change: run(text, lake.open("m.s.b")))
        with pytest.raises(ConflictError):
            lake.run(*move, spark=spark, observer=winner)
    assert lake.values("m.s.a")[1] == START


class FailingLog:
    """A table's files; its log cannot be read while `fails` says so."""

    def __init__(self, files, fails):
        self._files, self._fails = files, fails

    def __getattr__(self, name):
        return getattr(self._files, name)

    def read(self, path, start=None, length=None):
        self._check(path)
        return self._files.read(path, start, length)

    def stat(self, path):
        self._check(path)
        return self._files.stat(path)

    def _check(self, path):
        if path.startswith(LOG_DIRECTORY) and self._fails():
            raise StorageError(path)


@pytest.mark.parametrize("place", [0, 1])
def test_a_log_that_fails_after_the_ratification_costs_no_ratified_commit(place):
    lake, failures = Lake(ModelCatalog()), [True]
    for name in NAMES:
        lake.catalog.report_published(lake.open(name).store.table, 1)

    def open_table(name):
        table = lake.open(name)
        if name == NAMES[place]:
            managed = [table.store.table]
            table.store.files = FailingLog(
                table.store.files,
                lambda: bool(failures) and lake.catalog.read_versions(managed) == (2,),
            )
        return table

    with pytest.raises(CommitOutcomeUnknownError):
        lake.run(*_move("m.s.a", "m.s.b"), opens=open_table, txn_id="one")
    failures.clear()
    assert lake.versions() == [2, 2, 1]
    assert (lake.values("m.s.a")[1], lake.values("m.s.b")[1]) == (95, 105)
    assert lake.run(*_move("m.s.a", "m.s.b"), txn_id="one", since_version=1).recognized


@pytest.mark.spark
def test_statements_read_the_tables_as_the_transaction_left_them(lake, spark):
    lake.run(
        "UPDATE m.s.a SET v = 1 WHERE k = 1",
        "MERGE INTO m.s.b AS t USING m.s.a s ON t.k = s.k AND s.v = 1 WHEN MATCHED THEN UPDATE SET v = 2",
        "INSERT INTO m.s.c SELECT k + 10, v FROM m.s.b WHERE v = 2",
        spark=spark,
        observer=Interruption(lambda: run("UPDATE t SET v = 9 WHERE k = 2", lake.open("m.s.b"))),
    )
    assert lake.values("m.s.b") == dict.fromkeys(KEYS, START) | {1: 2, 2: 9}
    assert lake.values("m.s.c")[11] == 2


@pytest.mark.spark
def test_an_earlier_version_of_a_changed_table_is_refused(lake, spark):
    for version in (1, 2):
        read = f"INSERT INTO m.s.b SELECT * FROM m.s.a VERSION AS OF {version}"
        with pytest.raises(ScriptError, match="cannot read an earlier version"):
            lake.run("DELETE FROM m.s.a WHERE k = 1", read, spark=spark)
    assert lake.versions() == [1, 1, 1]


def test_tables_without_one_catalog_are_refused_by_name(tmp_path, lake):
    other = Lake(EmbeddedCatalog(tmp_path / "other.db", str(tmp_path / "other")))
    plain = DeltaTable.create(str(tmp_path / "plain"), SCHEMA)
    for second in (plain, other.open("m.s.b")):
        opens = {"m.s.a": lake.open("m.s.a"), "m.s.b": second}.__getitem__
        with pytest.raises(RequestError, match="one catalog manages") as refused:
            lake.run(*_move("m.s.a", "m.s.b"), opens=opens)
        assert refused.value.field == "steps"
    assert lake.versions() == [1, 1, 1]


def test_a_catalog_that_ratifies_one_table_at_a_time_is_named():
    model = ModelCatalog()
    model.commits_groups = False
    lake = Lake(model)
    with pytest.raises(RequestError, match="the model cannot ratify a commit to"):
        lake.run(*_move("m.s.a", "m.s.b"))
    assert lake.versions() == [1, 1, 1]


class History:
    """Random transfers, some in the middle of others, through a catalog with failing calls."""

    def __init__(self, seed):
        self.dice = random.Random(seed)  # noqa: S311 - to be repeated by its seed
        model = ModelCatalog(
            unpublished=self.dice.choice([2, 10]), remembers=self.dice.choice([0, 3])
        )
        self.lake = Lake(model, properties=self.dice.choice([None, SERIALIZABLE]))
        self.weather = WeatherCatalog(model, weather_chance(seed, 0.15))
        self.moves, self.landed, self.unknown = {}, set(), set()

    def open(self, name):
        table = self.lake.open(name)
        table.store._catalog = self.weather
        return table

    def move(self, depth=0):
        dice, name = self.dice, f"move-{len(self.moves)}"
        move = (*dice.sample(NAMES, 2), dice.choice(KEYS), dice.randint(1, 9))
        self.moves[name] = move
        is_interrupted = depth < 2 and dice.random() < 0.5
        act = Interruption((lambda: self.move(depth + 1)) if is_interrupted else None)
        try:
            self.lake.run(*_move(*move), opens=self.open, observer=act, txn_id=name, retries=1)
            self.landed.add(name)
        except CommitOutcomeUnknownError:
            self.unknown.add(name)
        except (ConflictError, CatalogError, ScriptError):
            pass

    def check(self):
        """Each transfer is in both of its tables, or in none, and nothing else changed a row."""
        committed = {}
        for name in NAMES:
            table = self.lake.open(name)
            for version in range(2, table.version() + 1):
                txn_id = read_commit(table.store, version).commit_info.txn_id
                committed.setdefault(txn_id, []).append(name)
        expected = {name: dict.fromkeys(KEYS, START) for name in NAMES}
        for txn_id, tables in committed.items():
            source, target, key, amount = self.moves[txn_id]
            assert sorted(tables) == sorted((source, target))
            expected[source][key] -= amount
            expected[target][key] += amount
        assert self.landed <= committed.keys() <= self.landed | self.unknown
        assert {name: self.lake.values(name) for name in NAMES} == expected


def _run_history(seed):
    history = History(seed)
    for _ in range(4):
        history.move()
    history.weather.settle()
    history.check()


@pytest.mark.timeout(900)
def test_no_history_of_transfers_leaves_a_half_in_any_weather():
    for seed in share(50, range(1000)):
        try:
            _run_history(seed)
        except (AssertionError, EngineError) as error:
            error.add_note(f"history {seed}")
            raise
