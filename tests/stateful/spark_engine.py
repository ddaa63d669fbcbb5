"""The second executor of histories: the engine's own operations on Spark, one thread per command.

A command runs until it has staged its changes, and waits until the history commits it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from engine.errors import EngineError, OperationCancelledError
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.stateful import commands as c
from tests.stateful.arrow_engine import Running, state_of
from tests.stateful.happenings import Scene
from tests.stateful.history import History, Played, create
from tests.stateful.spark_statements import render_statement
from tests.stateful.weather import FakeClock, ForgetfulStore

_PATIENCE_S = 240


def play_on_spark(
    history: History, spark: SparkSession | None, place: str, *, retries: int = 0
) -> Played:
    """Play a history at a place on disk, as `history.play` does in memory.

    Its small statements run alternately with and without Spark, or all without if no session is given.
    A losing statement is retried at once, up to `retries` times.
    """
    start = state_of(create(history.setup, place).snapshot())
    store, clock = ForgetfulStore(open_store(place)), FakeClock()
    table = DeltaTable(store, clock=clock)
    played = Played(table, history.setup, start, Scene.from_table(table, clock))
    opened: dict[int, _Turn] = {}
    with ThreadPoolExecutor(len(history.steps)) as pool:
        try:
            for step in history.steps:
                if step.opens is not None:
                    opened[step.opens.number] = _Turn(step.opens, played, spark, pool, retries)
                elif step.commits in opened:
                    inside = opened.pop(step.inside, None) if step.inside != step.commits else None
                    store.fault = step.fault
                    opened.pop(step.commits).finish(inside)
        finally:
            for turn in opened.values():
                turn.abandon()
    return played


class _Turn(TransactionObserver):
    """One command on its way: `finish` lets it commit, and waits until it has."""

    def __init__(
        self,
        command: c.Command,
        played: Played,
        spark: SparkSession | None,
        pool: ThreadPoolExecutor,
        retries: int,
    ) -> None:
        self._command, self._played = command, played
        self._txn: ObservedTransaction | None = None
        self._ready, self._go = threading.Event(), threading.Event()
        self._meanwhile: Callable[[], None] | None = None
        self._abandoned = False
        newest = played.table.snapshot()
        if isinstance(command, c.Restore):
            version = max(0, newest.version - command.back)
            restored = state_of(played.table.snapshot(version=version))
            self._command = replace(command, restored=restored)
        statement = render_statement(command, newest)
        own = DeltaTable(played.table.store, clock=played.table.clock)
        in_process = spark is None or command.number % 2
        by_turns = RunOptions().in_process_bytes if in_process else 0
        options = RunOptions(in_process_bytes=by_turns, observer=self, retries=retries)
        self._run: Future[OperationResult] = pool.submit(run, statement, own, spark, options)
        self._run.add_done_callback(lambda _: self._ready.set())
        assert self._ready.wait(_PATIENCE_S), f"{command} did not get as far as its commit"

    def started(self, txn: ObservedTransaction) -> None:
        self._txn = txn

    def staged(self, _txn: ObservedTransaction) -> None:
        self._ready.set()
        assert self._go.wait(_PATIENCE_S), "nobody committed"
        if self._abandoned:
            what = "The history does not commit it."
            raise OperationCancelledError(what)

    def before_commit(self, _txn: ObservedTransaction, _attempt_version: int) -> None:
        act, self._meanwhile = self._meanwhile, None
        if act is not None:
            act()

    def finish(self, inside: "_Turn | None") -> None:
        """Commit, another one between validation and put."""
        if inside is not None:
            self._meanwhile = partial(inside.finish, None)
        self._go.set()
        try:
            result = self._run.result(_PATIENCE_S)
        except EngineError as error:
            self._played.aborted[self._command.number] = error
        else:
            if result.version is not None:
                self._record_commit(result.version)
        if inside is not None and self._meanwhile is not None:
            inside.abandon()

    def abandon(self) -> None:
        """End the transaction without a commit."""
        self._abandoned = True
        self._go.set()

    def _record_commit(self, version: int) -> None:
        assert isinstance(self._txn, OptimisticTransaction)
        self._played.landed[version] = Running(self._command, self._txn, "")
