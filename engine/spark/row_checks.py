"""Rows that must not be written: found by Spark while it writes, reported as the engine's errors."""

import json
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import (
    BadRowsError,
    DataFileError,
    EngineError,
    InvariantViolationError,
    RequestError,
)
from engine.spark.columns import column

_MARK = "LAKE_ROW_CHECK"
_SPARK_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)[.\]]")
_UNREADABLE = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "FileNotFoundException", "FileMissingError")
_VALUE_ERRORS = frozenset(
    {
        "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW",
        "CAST_INVALID_INPUT",
        "CAST_OVERFLOW",
        "CAST_OVERFLOW_IN_TABLE_INSERT",
        "DIVIDE_BY_ZERO",
        "INVALID_ARRAY_INDEX",
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "REMAINDER_BY_ZERO",
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    }
)
_SHOWN_COLUMNS = 8
_FOUND = re.compile(_MARK + r"(\{.*?\})" + _MARK, re.DOTALL)


def refuse_bad_rows(frame: DataFrame, problem: Column, file: Column, record: Column) -> DataFrame:
    """The rows, failing the job at the first with a problem."""
    facts = {
        "kind": F.lit("bad row"),
        "file": file,
        "record": record.cast("string"),
        "problem": problem,
    }
    return _refuse(frame, problem.isNull(), facts)


def refuse_violations(frame: DataFrame, holds: Column, rule: str, values: Column) -> DataFrame:
    """The rows, failing the job at the first that breaks a rule. Null breaks no rule."""
    facts = {"kind": F.lit("violation"), "rule": F.lit(rule), "values": values}
    return _refuse(frame, F.coalesce(holds, F.lit(True)), facts)


def shown_values(names: Sequence[str]) -> Column:
    """The values of a row's columns, for people: `id = 5000, name = "x"`, the first few of them."""
    shown = [F.concat(F.lit(f"{name} = "), _shown_value(name)) for name in names[:_SHOWN_COLUMNS]]
    return F.concat_ws(", ", *shown)


def engine_error(error: Exception, where: str) -> EngineError:
    """What went wrong in a Spark job, in the engine's words."""
    text = str(error)
    if (found := _FOUND.search(text)) is not None:
        return _error_of(found[1])
    first = _first_line(text)
    if any(sign in text for sign in _UNREADABLE):
        msg = f"A data file of {where} cannot be read: {first}"
        return DataFileError(msg, "Restore the file, or restore the table to an earlier version.")
    if (named := _SPARK_CONDITION.search(text)) is not None and named[1] in _VALUE_ERRORS:
        msg = f"A value cannot be computed: {first}"
        return InvalidValueError(msg, "Correct the value or the expression.")
    msg = f"Spark failed on {where}: {first}"
    return SparkJobError(msg, "Look at the worker's log; nothing was written.")


class SparkJobError(EngineError):
    """A Spark job failed for a reason that is not the request's."""

    code = "LAKE_SPARK_JOB_FAILED"
    sqlstate = "XX000"


class InvalidValueError(RequestError):
    """A cast or a computation that ANSI SQL refuses."""

    code = "LAKE_INVALID_VALUE"
    sqlstate = "22018"


def _shown_value(name: str) -> Column:
    """The value as JSON, which is told apart from its neighbours whatever its type."""
    alone = F.to_json(F.struct(column(name).alias("value")))
    found = F.regexp_extract(alone, r'(?s)^\{"value":(.*)\}$', 1)
    return F.coalesce(F.nullif(found, F.lit("")), F.lit("null"))


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = next((line for line in lines if _SPARK_CONDITION.search(line)), None)
    worker = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid)\b", line)]
    return (named or (worker[-1] if worker else lines[0] if lines else "no reason given"))[:500]


def _refuse(frame: DataFrame, passes: Column, facts: dict[str, Column]) -> DataFrame:
    report = F.to_json(F.struct(*[_bounded(value).alias(key) for key, value in facts.items()]))
    error = F.raise_error(F.concat(F.lit(_MARK), report, F.lit(_MARK))).cast("boolean")
    return frame.filter(F.when(passes, F.lit(True)).otherwise(error))


def _bounded(value: Column) -> Column:
    return F.substring(F.coalesce(value.cast("string"), F.lit("null")), 1, 500)


def _error_of(text: str) -> EngineError:
    try:
        facts: dict[str, Any] = json.loads(text)
    except ValueError:
        facts = {"kind": "bad row", "problem": text[:500]}
    if facts.get("kind") == "violation":
        msg = f"A row breaks {facts.get('rule')}: {facts.get('values')}. Nothing was written."
        return InvariantViolationError(msg, "Correct the row, or change the rule.")
    place = f"Row {facts.get('record')} of {facts.get('file')}" if facts.get("file") else "A row"
    msg = f"{place} does not fit: {facts.get('problem')}. Nothing was written."
    return BadRowsError(msg, "Correct it, or have bad rows dropped.", field="source")
