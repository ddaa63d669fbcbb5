"""A process is killed before and after every I/O of every operation.

Afterwards no acknowledged commit is lost, no partial commit is visible, deltalake reads the table,
and a retry of the same job applies it once.
"""

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import TableNotFoundError
from engine.log.commits import list_versions
from engine.storage.local import LocalStore
from engine.table import DeltaTable
from engine.transaction.log_tail import newest_version
from tests.engine.faults.dying import Death, Undertaker
from tests.engine.faults.killed_operations import (
    MANAGED_OPERATIONS,
    OPERATIONS,
    open_catalog,
    open_managed,
)
from tests.engine.faults.states import check_whole, commits_of, state_of
from tests.engine.other_engines import deltalake_rows
from tests.shares import one_in, share

SHARE = 31
"""`make test` kills at one moment in so many, and at another one in each second operation."""


@pytest.fixture(scope="module")
def undertaker() -> Iterator[Undertaker]:
    one = Undertaker()
    yield one
    one.close()


@dataclass
class Sweep:
    """An operation, the table before it, and the table's states before and after."""

    name: str
    home: Path
    undertaker: Undertaker

    def __post_init__(self) -> None:
        self.before = self.home / "before" / "t"
        self.before.parent.mkdir(parents=True)
        OPERATIONS[self.name].make(str(self.before))
        whole = self._copy("whole")
        life = self._run(whole, "whole")
        assert life.acknowledged, life
        self.moments = life.moments
        self.states = _states_on_the_way(self.before, whole)

    def kill_at(self, fatal: int) -> bool:
        """Kill a process at a moment and check every guarantee; return True if the process died."""
        table, txn_id = self._copy(str(fatal)), str(uuid.uuid4())
        death = self._run(table, txn_id, fatal)
        where = f"{self.name}, killed at {self.moments[fatal - 1 : fatal]}: {death}"
        assert death.error is None, where
        self._check(table, txn_id, where, acknowledged=death.acknowledged)
        OPERATIONS[self.name].act(LocalStore(table), txn_id)
        assert _state(table) == self.states[-1], where
        if OPERATIONS[self.name].commits_once:
            assert len(commits_of(LocalStore(table), txn_id)) == 1, where
        check_whole(LocalStore(table))
        _check_elsewhere(table)
        shutil.rmtree(table.parent)
        return death.killed

    def _check(self, table: Path, txn_id: str, where: str, *, acknowledged: bool) -> None:
        state = _state(table)
        assert state in self.states, where
        if acknowledged:
            assert state == self.states[-1], where
        if OPERATIONS[self.name].commits_once:
            landed = bool(commits_of(LocalStore(table), txn_id))
            assert state == self.states[-1 if landed else 0], where
        if state != NO_TABLE:
            check_whole(LocalStore(table))
            _check_elsewhere(table)

    def _copy(self, name: str) -> Path:
        """Return a copy of the table before the operation, with its sibling directories."""
        shutil.copytree(self.before.parent, self.home / name)
        return self.home / name / "t"

    def _run(self, table: Path, txn_id: str, fatal: int = 0) -> Death:
        return self.undertaker.run(self.name, str(table), txn_id, fatal)


NO_TABLE = "no table"


def _state(table: Path) -> str:
    try:
        return state_of(DeltaTable.open(str(table)).snapshot())
    except TableNotFoundError:
        return NO_TABLE


def _states_on_the_way(before: Path, after: Path) -> list[str]:
    """Return the states of a table before an operation and after each of its commits."""
    table = DeltaTable.open(str(after))
    started = newest_version(LocalStore(before))
    versions = range(started + 1, table.version() + 1)
    return [_state(before), *(state_of(table.snapshot(version=version)) for version in versions)]


def _check_elsewhere(table: Path) -> None:
    ours = DeltaTable.open(str(table)).snapshot().to_arrow().to_pylist()
    assert sorted(map(repr, deltalake_rows(str(table)))) == sorted(map(repr, ours))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", one_in(2, OPERATIONS))
def test_an_operation_whose_process_is_killed_happens_completely_or_not_at_all(
    name: str, undertaker: Undertaker, tmp_path: Path
):
    sweep = Sweep(name, tmp_path, undertaker)
    first = 1 + list(OPERATIONS).index(name) % min(SHARE, len(sweep.moments))
    chosen = range(first, len(sweep.moments) + 1, SHARE)
    assert all(sweep.kill_at(fatal) for fatal in chosen)


@pytest.mark.timeout(1800)
def test_a_killed_writer_of_a_managed_table_commits_once_and_leaves_no_gap(
    undertaker: Undertaker, tmp_path: Path
):
    for name, operation in MANAGED_OPERATIONS.items():
        before, whole = tmp_path / f"{name} before", tmp_path / f"{name} whole"
        operation.make(str(before))
        operation.make(str(whole))
        life = undertaker.run(name, str(whole), "killed")
        assert life.acknowledged, life
        tables = operation.tables
        states, landed = [_list_managed_rows(at, tables) for at in (before, whole)], []
        for fatal in share(2 * SHARE, range(len(life.moments), 0, -1)):
            place = tmp_path / f"{name} {fatal}"
            operation.make(str(place))
            death = undertaker.run(name, str(place), "killed", fatal)
            where = f"{name}, killed at {life.moments[fatal - 1]}: {death}"
            assert death.killed, where
            rows = _list_managed_rows(place, tables)
            assert rows in states[death.acknowledged :], where
            landed.append(rows == states[1])
            operation.insert_next(str(place))
            operation.act(LocalStore(place), "killed")
            after = [sorted([*rows, (100, "next")]) for rows in states[1]]
            assert _list_managed_rows(place, tables) == after, where
            for table in tables:
                _check_published(place, table)
            shutil.rmtree(place)
        assert {*landed} == {False, True}, "it dies before and after the ratification"


def _list_managed_rows(place: Path, tables: tuple[str, ...]) -> list[list[tuple[int, str]]]:
    """Return the rows of each table."""
    read = [open_managed(str(place), name).snapshot().to_arrow().to_pylist() for name in tables]
    return [sorted((row["n"], row["name"]) for row in rows) for rows in read]


def _check_published(place: Path, name: str) -> None:
    """Check that the catalog and the log have the same versions, and the killed commit once."""
    table = open_managed(str(place), name)
    newest = open_catalog(str(place)).list_commits(table.store.table).check().latest_version
    assert list_versions(table.store) == list_versions(table.store.files) == [*range(newest + 1)]
    assert len(commits_of(table.store, "killed")) == 1


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_sweep_kills_at_every_moment(
    name: str,
    undertaker: Undertaker,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
):
    sweep = Sweep(name, tmp_path, undertaker)
    assert len(sweep.moments) > 20
    record_property("moments of death", len(sweep.moments))
    assert all(sweep.kill_at(fatal) for fatal in range(1, len(sweep.moments) + 1))
