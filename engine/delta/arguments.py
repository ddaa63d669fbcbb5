"""Callers' arguments, checked as delta-spark's API checks them and with the same messages."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TypeAlias

from pyspark.sql import Column, DataFrame

from engine.errors import RequestError
from engine.expressions.scope import strip_table_name
from engine.protocol.features import FEATURES
from engine.schema.column_paths import column_path, render_column_path
from engine.spark.column_trees import CallerFrames, GivenColumn

ExpressionOrColumn: TypeAlias = str | Column
ColumnMapping: TypeAlias = dict[str, ExpressionOrColumn]


class FeatureNameError(RequestError, code="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"):
    """There is no such feature here."""


def check_feature(name: str) -> None:
    """Raise `FeatureNameError` for a table feature that this engine does not know."""
    if name.lower() not in {feature.lower() for feature in FEATURES}:
        what = f"{name} is not a table feature that this engine can enable."
        raise FeatureNameError(
            what, f"The features are {', '.join(sorted(FEATURES))}.", field="featureName"
        )


def condition(given: object, frames: CallerFrames, name: str = "'condition'") -> GivenColumn | None:
    """Return a condition given as text or Column; raise `TypeError` if it is neither."""
    if given is None:
        return None
    if not isinstance(given, str | Column):
        what = f"{name} must be a Spark SQL Column or a string (expression in SQL syntax)"
        msg = f"{what}, found to be of type {type(given)}"
        raise TypeError(msg)
    return GivenColumn(given, frames)


def assignments(given: object, frames: CallerFrames, name: str) -> dict[str, GivenColumn]:
    """Return columns with their assigned values.

    Raises:
        ValueError: there are none.
        TypeError: the argument is not a dict of names to texts or Columns.
    """
    if given is None:
        msg = f"{name} cannot be None"
        raise ValueError(msg)
    if not isinstance(given, dict):
        msg = f"{name} must be a dict, found to be {type(given)}"
        raise TypeError(msg)
    return {_key(key, frames, name): _value(value, frames, name) for key, value in given.items()}


def _key(key: object, frames: CallerFrames, name: str) -> str:
    if not isinstance(key, str):
        what = f"Keys of dict in {name} must contain only strings with column names"
        msg = f"{what}, found '{key}' of type '{type(key)}'"
        raise TypeError(msg)
    column = strip_table_name(column_path(key), frames.target_name)
    return render_column_path(column) if column else key


def _value(value: object, frames: CallerFrames, name: str) -> GivenColumn:
    if not isinstance(value, str | Column):
        what = f"Values of dict in {name} must contain only Spark SQL Columns or strings"
        shown = f"found '{value}' of type '{type(value)}'"
        msg = f"{what} (expressions in SQL syntax) as values, {shown}"
        raise TypeError(msg)
    return GivenColumn(value, frames)


def names(given: Sequence[Any], what: str) -> tuple[str, ...]:
    """Return column names given one by one or as one list.

    Raises:
        TypeError: a name is not a text; the message begins with `what`.
    """
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = given[0]
    for item in given:
        if type(item) is not str:
            refuse(what, [item])
    return tuple(given)


def refuse(what: str, objects: Iterable[object]) -> NoReturn:
    """Raise a TypeError that shows the arguments.

    Raises:
        TypeError: always.
    """
    shown = "".join(f" Found {object_} with type {type(object_)}" for object_ in objects)
    raise TypeError(what + shown)


def check_text(given: object, name: str) -> None:
    """Raise `ValueError` for an argument other than a text."""
    if not isinstance(given, str):
        msg = f"{name} needs to be a string but got '{type(given)}'."
        raise ValueError(msg)


def check_source(source: object, on: object) -> None:
    """Refuse the source or condition of a MERGE if it is missing or of a wrong type.

    Raises:
        ValueError: there is no source, or no condition.
        TypeError: the source is not a DataFrame.
    """
    if source is None:
        msg = "'source' in merge cannot be None"
        raise ValueError(msg)
    if not isinstance(source, DataFrame):
        msg = "Type of 'source' in merge must be DataFrame."
        raise TypeError(msg)
    if on is None:
        msg = "'condition' in merge cannot be None"
        raise ValueError(msg)


def check_integer(given: object, name: str, kind: str = "int") -> None:
    """Refuse an argument other than a whole number.

    Raises:
        ValueError: it is not a whole number.
    """
    if not isinstance(given, int):
        msg = f"{name} needs to be an {kind} but got '{type(given)}'."
        raise ValueError(msg)


def check_flag(given: object, name: str) -> None:
    """Raise `ValueError` for an argument other than true or false."""
    if not isinstance(given, bool):
        msg = f"{name} needs to be a boolean but got '{type(given)}'."
        raise ValueError(msg)


def check_properties(given: object) -> None:
    """Refuse properties other than a dict of texts.

    Raises:
        ValueError: they are not a dict, or hold another type.
    """
    if given is None:
        return
    if not isinstance(given, dict):
        msg = f"properties needs to be a dict but got '{type(given)}'."
        raise ValueError(msg)
    for key, value in given.items():
        check_text(key, f"All property keys including {key}")
        check_text(value, f"All property values including {value}")
