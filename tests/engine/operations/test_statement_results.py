"""Statements leave the same rows as delta-spark, or are refused by name, on Spark and in this process.

Spark runs every third of the many similar statements; `make interop` runs all of them beside
delta-spark.
"""

import pytest

from tests.interop.statement_cases import (
    ASSIGNMENT,
    EVOLUTION,
    GENERATED,
    RULES,
    SPELLINGS,
    STATEMENTS,
    STRICT,
    STRUCTS,
)
from tests.interop.statement_runs import NEEDS_SPARK, outcome
from tests.shares import one_in

ON_SPARK = (
    *STRUCTS[::3],
    *GENERATED,
    *STRICT[::4],
    *EVOLUTION,
    *RULES,
    *SPELLINGS,
    *ASSIGNMENT[::4],
)
LIMIT = 1 << 25


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.parametrize("statement", one_in(12, ON_SPARK), ids=lambda statement: statement.name)
def test_spark_leaves_the_same_rows_as_delta_spark(statement, spark, tmp_path):
    assert outcome(statement, tmp_path, spark, 0) == statement.expected


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_this_process_leaves_the_same_or_needs_spark(statement, tmp_path):
    result = outcome(statement, tmp_path, None, LIMIT)
    assert result == (NEEDS_SPARK if statement.needs_spark else statement.expected)
