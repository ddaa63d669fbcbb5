"""Rows that must not be written: found by Spark while it writes, reported as the engine's errors."""

import json
import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import BadRowsError, DataFileError, EngineError, InvariantViolationError

_MARK = "LAKE_ROW_CHECK"
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


def engine_error(error: PySparkException, where: str) -> EngineError | None:
    """The error that a check, or a damaged file, gave the job; None for any other failure."""
    text = str(error)
    if (found := _FOUND.search(text)) is not None:
        return _error_of(found[1])
    if "FAILED_READ_FILE" in text or "PATH_NOT_FOUND" in text or "FileNotFoundException" in text:
        first = text.strip().splitlines()[0][:500]
        msg = f"A data file of {where} cannot be read: {first}"
        return DataFileError(msg, "Restore the file, or repair the table.")
    return None


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
