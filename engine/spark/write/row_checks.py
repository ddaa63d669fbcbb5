"""Checks of rows, evaluated by Spark during the write and reported as the engine's errors."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.spark.columns import column
from engine.spark.failures import ROW_CHECK

MOST_SHOWN_COLUMNS = 8


def refuse_bad_rows(frame: DataFrame, problem: Column, file: Column, record: Column) -> DataFrame:
    """Return the rows; the job fails at the first row with a problem."""
    facts = {
        "kind": F.lit("bad row"),
        "file": file,
        "record": record.cast("string"),
        "problem": problem,
    }
    return _refuse(frame, problem.isNull(), facts)


def refuse_violations(frame: DataFrame, holds: Column, rule: str, values: Column) -> DataFrame:
    """Return the rows; the job fails at the first violation of a rule. Null breaks no rule."""
    facts = {"kind": F.lit("violation"), "rule": F.lit(rule), "values": values}
    return _refuse(frame, F.coalesce(holds, F.lit(True)), facts)


def raise_invalid_value(value: Column, facts: Mapping[str, str | bool]) -> Column:
    """Fails the job: this value cannot be stored. It has no type of its own.

    `facts` are `place`, `type`, `clause`, and `overflow`: whether it is out of range, not bad text.
    """
    named = {name: F.lit(fact) for name, fact in facts.items()}
    return _error({"kind": F.lit("value"), "value": value, **named})


def describe_row(names: Sequence[str]) -> Column:
    """Render the values of a row's first columns for people: `id = 5000, name = "x"`."""
    shown = [
        F.concat(F.lit(f"{name} = "), _describe_value(name)) for name in names[:MOST_SHOWN_COLUMNS]
    ]
    return F.concat_ws(", ", *shown)


def _describe_value(name: str) -> Column:
    """Render the value as JSON, which delimits any type."""
    alone = F.to_json(F.struct(column(name).alias("value")), {"ignoreNullFields": "false"})
    return F.regexp_extract(alone, r'(?s)^\{"value":(.*)\}$', 1)


def _refuse(frame: DataFrame, passes: Column, facts: dict[str, Column]) -> DataFrame:
    return frame.filter(F.when(passes, F.lit(True)).otherwise(_error(facts).cast("boolean")))


def _error(facts: Mapping[str, Column]) -> Column:
    report = F.to_json(
        F.struct(*[_shorten_value(value).alias(key) for key, value in facts.items()])
    )
    return F.raise_error(F.concat(F.lit(ROW_CHECK), report, F.lit(ROW_CHECK)))


def _shorten_value(value: Column) -> Column:
    return F.substring(F.coalesce(value.cast("string"), F.lit("null")), 1, 500)
