"""A player that takes a table of a layout through operations, with checks after each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.commands.command import Command
from engine.commands.sql import parse_statement
from engine.log.commits import read_commit
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.operations.sweep import checks
from tests.engine.operations.sweep.bench import Bench
from tests.engine.operations.sweep.layouts import Layout
from tests.engine.operations.sweep.metrics import check_metrics
from tests.engine.operations.sweep.model import Model, Row, sort_rows
from tests.engine.operations.sweep.steps import STEPS

Elsewhere = Mapping[str, Callable[[str], list[dict[str, Any]]]]


@dataclass
class Played:
    """One table during its steps."""

    model: Model
    table: DeltaTable
    spark: SparkSession
    scratch: Path
    elsewhere: Elsewhere
    seen: dict[int, checks.Found] = field(default_factory=dict)
    commands: int = 0

    def do(self, command: Command | str) -> OperationResult:
        """Run a command, alternately with and without Arrow in this process."""
        parsed = parse_statement(command) if isinstance(command, str) else command
        self.commands += 1
        in_process = RunOptions().in_process_bytes if self.commands % 2 else 0
        return run(parsed, self.table, self.spark, RunOptions(in_process_bytes=in_process))

    def step(self, name: str) -> None:
        """Run an operation on the table and on the model, and check the result."""
        model = self.model
        model.step += 1
        before, version = model.rows, self.table.version()
        columns = dict(model.names), dict(model.types)
        plan = STEPS[name](Bench(model, self.table.uri, self.scratch))
        if plan.refused is not None:
            with pytest.raises(plan.refused):
                self.do(plan.commands[0])
            assert self.table.version() == version
            return
        results = [self.do(command) for command in plan.commands]
        if plan.effect is not None:
            plan.effect()
        if plan.rows is not None:
            model.rows = list(plan.rows)
        model.remember(self.table.version())
        metrics = results[-1].metrics
        assert {key: metrics.get(key) for key in plan.counts} == dict(plan.counts)
        same = columns == (model.names, model.types)
        self.check(None if name == "restore" and not same else before, version + 1)
        if name == "vacuum":
            checks.check_directory(self.table.snapshot())

    def check(self, before: Sequence[Row] | None, first: int) -> None:
        """Check the table through a new handle, which starts from checkpoints.

        `before` are the rows before the step, or None if the feed cannot be checked: a RESTORE that brings a
        dropped column back shows its values in the removed rows.
        """
        model, table = self.model, DeltaTable.open(self.table.uri)
        snapshot = table.snapshot()
        checks.check_rows(model, snapshot)
        checks.check_files(model, snapshot)
        checks.check_identities(model, checks.find_rows(snapshot), self.seen)
        if model.layout.change_feed and before is not None and first <= snapshot.version:
            checks.check_changes(model, list(before), table, first)
        if model.layout.in_commit_timestamps:
            checks.check_times(table)
        for number in range(first, snapshot.version + 1):
            check_metrics(read_commit(table.store, number))

    def check_elsewhere(self) -> None:
        """Check that other engines read the same rows."""
        names = [self.model.names[name] for name in self.model.names]
        for engine, read in self.elsewhere.items():
            if self.is_beyond(engine):
                continue
            rows = sort_rows(tuple(row[name] for name in names) for row in read(self.table.uri))
            checks.check_same(rows, self.model.show_rows(), engine)

    def is_beyond(self, engine: str) -> bool:
        """Return True if another engine cannot read the table.

        deltalake refuses type widening by name. duckdb mixes up the values of several mapped partition
        columns.
        """
        layout = self.model.layout
        if engine == "duckdb":
            return layout.placing == "partitioned" and layout.mapping != "none"
        return "typeWidening" in (self.table.snapshot().protocol.reader_features or ())


def play(
    layout: Layout,
    names: Iterable[str],
    spark: SparkSession,
    place: Path,
    elsewhere: Elsewhere,
    *,
    every_step: bool = False,
) -> Played:
    """Create a table of a few rows and run each step.

    Args:
        layout: the table's options.
        names: the steps.
        spark: the session.
        place: a fresh directory.
        elsewhere: reads a table with other engines.
        every_step: have other engines read after every step, not only after the last.
    """
    scratch = place / "sources"
    scratch.mkdir(parents=True)
    table = DeltaTable(open_store(str(place / "a table")))
    played = Played(Model.empty(layout), table, spark, scratch, elsewhere)
    played.do(layout.create())
    played.model.remember(0)
    for name in ("append", *names):
        played.step(name)
        if every_step:
            played.check_elsewhere()
    played.check_elsewhere()
    return played
