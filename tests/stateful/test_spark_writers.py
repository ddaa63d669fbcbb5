"""Many threads, one SparkSession, one table: no concurrent write is lost.

The sizes in `make test` show that it works; those marked stress look for races.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from engine.commands.command import Command
from engine.commands.merge import Merge, MergeClause
from engine.commands.model import Append, Delete, Optimize, Update
from engine.commands.sources import RowsSource
from engine.errors import ConflictError
from engine.log.commits import list_versions, read_commit
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = StructType((StructField("id", LONG), StructField("v", LONG), StructField("by", STRING)))
WRITERS = 8
_PATIENCE_S = 240
LARGE = [pytest.mark.stress, pytest.mark.timeout(3600)]
Elsewhere = Callable[[DeltaTable], dict[str, list[tuple[object, ...]]]]


@pytest.fixture
def table(tmp_path) -> DeltaTable:
    properties = {"delta.enableDeletionVectors": "true"}
    return DeltaTable.create(str(tmp_path / "t"), SCHEMA, properties=properties)


@pytest.mark.parametrize("in_process_bytes", one_in(2, [0, RunOptions().in_process_bytes]))
@pytest.mark.parametrize("commits", [16, pytest.param(200, marks=LARGE)])
def test_eight_writers_of_different_rows_of_one_file_all_commit(
    commits: int,
    in_process_bytes: int,
    spark: SparkSession,
    table: DeltaTable,
    rows_elsewhere: Elsewhere,
):
    """No write is retried, because no write conflicts with another."""
    run(_insert((i, 0) for i in range(commits + 4)), table, spark)

    meeting, options = _Meeting(WRITERS), RunOptions(in_process_bytes=in_process_bytes)

    def work(writer: int) -> list[OperationResult]:
        own = DeltaTable.open(table.uri)
        first, *others = range(writer, commits, WRITERS)
        return [
            run(_change(first), own, spark, options, observer=meeting),
            *(run(_change(i), own, spark, options) for i in others),
        ]

    with ThreadPoolExecutor(WRITERS) as pool:
        results = [row for done in pool.map(work, range(WRITERS)) for row in done]
    assert sorted(result.version or 0 for result in results) == list(range(2, commits + 2))
    assert list_versions(table.store) == list(range(commits + 2))
    assert sum(bool(result.resolved) for result in results) >= WRITERS - 1
    expected = [(i, 0, "start") for i in range(commits, commits + 4)]
    expected += [(i, i + 1, "writer") for i in range(commits) if i % 3]
    assert _read_by_everybody(table, rows_elsewhere) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("threads", "transfers"), [(3, 3), pytest.param(6, 25, marks=LARGE)], ids=["small", "large"]
)
def test_money_is_neither_made_nor_lost_while_optimize_runs(
    threads: int, transfers: int, spark: SparkSession, table: DeltaTable, rows_elsewhere: Elsewhere
):
    """Transfers between accounts that all use at once, retried until they land."""
    bank = _Bank(table, spark)
    with ThreadPoolExecutor(threads + 1) as pool:
        compactions = pool.submit(bank.optimize)
        try:
            list(pool.map(lambda thread: bank.transfer(thread, transfers), range(threads)))
        finally:
            bank.closed.set()
        assert compactions.result()
    assert _count(table, {"UPDATE", "MERGE"}) == threads * transfers
    for version in list_versions(table.store)[bank.opened :]:
        assert sum(table.snapshot(version).to_arrow()["v"].to_pylist()) == bank.total, version
    rows = _read_by_everybody(table, rows_elsewhere)
    assert {row[0]: row[1] for row in rows} == dict(bank.balances)


class _Meeting(TransactionObserver):
    """All writers have staged their first change before any of them commits it."""

    def __init__(self, writers: int) -> None:
        self._all_staged = threading.Barrier(writers, timeout=_PATIENCE_S)

    def staged(self, _txn: ObservedTransaction) -> None:
        self._all_staged.wait()


class _Bank:
    """Accounts in two files, with their expected balances."""

    def __init__(self, table: DeltaTable, spark: SparkSession) -> None:
        self._table, self._spark = table, spark
        self._lock = threading.Lock()
        self.balances: Counter[int] = Counter(dict.fromkeys(range(10), 1000))
        self.total = sum(self.balances.values())
        for half in (range(5), range(5, 10)):
            run(_insert((i, 1000) for i in half), table, spark)
        self.opened = table.version()
        self.closed, self.compacted = threading.Event(), threading.Event()

    def transfer(self, thread: int, times: int) -> None:
        """Move money between accounts, by UPDATE and by MERGE in turn; the last after a compaction."""
        own, dice = DeltaTable.open(self._table.uri), random.Random(thread)  # noqa: S311 - repeatable
        for number in range(times):
            if number == times - 1:
                assert self.compacted.wait(_PATIENCE_S), "no compaction landed among the transfers"
            giver, taker = dice.sample(range(10), 2)
            amount = dice.randint(1, 99)
            moved = {giver: -amount, taker: amount}
            run(
                _build_merge(moved) if number % 2 else _build_update(moved),
                own,
                self._spark,
                retries=999,
            )
            with self._lock:
                self.balances.update(moved)

    def optimize(self) -> int:
        """Compact until the bank closes; how often that changed the table."""
        own, done = DeltaTable.open(self._table.uri), 0
        while not self.closed.is_set():
            try:
                done += len(run(Optimize(), own, self._spark).versions)
                if done:
                    self.compacted.set()
            except ConflictError:
                continue
        return done


def _change(i: int) -> Command:
    """Rows whose number divides by three go; the others are set, by UPDATE or by MERGE."""
    if i % 3 == 0:
        return Delete(f"id = {i}")
    new = {"v": str(i + 1), "by": "'writer'"}
    if i % 3 == 1:
        return Update(new, f"id = {i}")
    source = RowsSource(("id",), ((str(i),),))
    clause = MergeClause("matched", "update", assignments=new)
    return Merge(source, "target.id = source.id", (clause,))


def _build_update(moved: Mapping[int, int]) -> Command:
    cases = " ".join(f"WHEN id = {i} THEN {amount}" for i, amount in moved.items())
    return Update({"v": f"v + CASE {cases} END"}, f"id IN {tuple(moved)}")


def _build_merge(moved: Mapping[int, int]) -> Command:
    rows = tuple((str(i), str(amount)) for i, amount in moved.items())
    clause = MergeClause("matched", "update", assignments={"v": "target.v + source.amount"})
    return Merge(RowsSource(("id", "amount"), rows), "target.id = source.id", (clause,))


def _insert(rows: Iterable[tuple[int, int]]) -> Command:
    return Append(RowsSource((), tuple((str(i), str(v), "'start'") for i, v in rows)))


def _count(table: DeltaTable, operations: set[str]) -> int:
    infos = [read_commit(table.store, v).commit_info for v in list_versions(table.store)]
    return sum(info is not None and info.operation in operations for info in infos)


def _read_by_everybody(table: DeltaTable, rows_elsewhere: Elsewhere) -> list[tuple[object, ...]]:
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"]
    return rows["engine"]
