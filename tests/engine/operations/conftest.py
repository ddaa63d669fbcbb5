"""Operations as statements: `do(sql)` on a table, with or without Spark."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.commands.command import Command
from engine.commands.sql import parse_statement
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.table import DeltaTable

Do = Callable[..., OperationResult]
IN_PROCESS = RunOptions().in_process_bytes
"""As `in_process_bytes` of `do`: rows that a test begins with need no Spark."""
_COMPILING = "spark.sql.codegen.factoryMode"


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Let Spark interpret instead of compile: for a few rows, compiling is a tenth of the CPU time."""
    spark.conf.set(_COMPILING, "NO_CODEGEN")
    yield spark
    spark.conf.unset(_COMPILING)


@pytest.fixture
def do(spark: SparkSession, empty_table: DeltaTable) -> Do:
    """Return a function that runs a statement or command on the test's table."""

    def perform(command: str | Command, **options: Any) -> OperationResult:
        table = options.pop("table", empty_table)
        parsed = parse_statement(command) if isinstance(command, str) else command
        options.setdefault("in_process_bytes", 0)  # these tests need Spark to do the work
        return run(parsed, table, options.pop("spark", spark), RunOptions(**options))

    return perform


@pytest.fixture
def do_lightly(empty_table: DeltaTable) -> Do:
    """Return a function that runs a statement on a table without Spark."""

    def perform(command: str | Command, **options: Any) -> OperationResult:
        parsed = parse_statement(command) if isinstance(command, str) else command
        return run(parsed, options.pop("table", empty_table), None, RunOptions(**options))

    return perform
