"""Conflicts raised by delta-spark in the JVM, under the names of `engine.delta.exceptions`.

delta-spark may stay on the class path of a job that changes its imports. Its own exceptions, in SQL
or at a writer, are then caught by the same `except` as the engine's. If the Python package `delta`
is loaded as well, its own names stay.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyspark.errors.exceptions.captured  # noqa: F401 - where errors of the JVM are made
from pyspark.errors.exceptions.base import UnknownException

from engine.delta.exceptions.base import NAMES, convert_error
from engine.errors import EngineError
from engine.spark.failures import iter_causes
from engine.spark.scan.file_index import listing_errors

_PACKAGE = "io.delta.exceptions."
_CLASSIC = "pyspark.errors.exceptions.captured"
_CONNECT = "pyspark.errors.exceptions.connect", "pyspark.sql.connect.client.core"
_INSTALLED = "converts_delta_spark"
Names = Mapping[str, type[BaseException]]
"""Exceptions by the simple names of delta-spark's classes."""


def install() -> None:
    """Make PySpark's sessions raise `NAMES`; Spark Connect's too if it is loaded already."""
    for module in (_CLASSIC, *_CONNECT):
        _wrap(module, NAMES, _read_connect_classes if module in _CONNECT else _read_classic_classes)


def _wrap(module_name: str, names: Names, classes_of: Callable[..., tuple[list[str], str]]) -> None:
    module: Any = sys.modules.get(module_name)
    if module is None or hasattr(module.convert_exception, _INSTALLED):
        return
    original = module.convert_exception

    def convert_exception(*arguments: Any, **keywords: Any) -> BaseException:  # noqa: ANN401
        converted: BaseException = original(*arguments, **keywords)
        if type(converted).__module__.startswith("delta."):
            return converted
        if module_name == _CLASSIC and isinstance(converted, UnknownException):
            ours = _listing_error(arguments[0])
            if ours is not None:
                return convert_error(ours)
        classes, prefix = classes_of(*arguments)
        kind = next(_iter_known_classes(classes, names), None)
        return converted if kind is None else _recast(kind, converted, prefix)

    setattr(convert_exception, _INSTALLED, True)
    module.convert_exception = convert_exception


def _listing_error(java: Any) -> EngineError | None:  # noqa: ANN401 - the JVM's
    """Return the engine's error that reached the JVM when it listed a table's files."""
    for cause in iter_causes(java):
        if cause.kind.startswith("py4j."):
            return next((e for e in reversed(listing_errors) if str(e) in cause.text), None)
    return None


def _iter_known_classes(classes: Iterable[str], names: Names) -> Iterator[type[BaseException]]:
    """Iterate over the exceptions for JVM classes, from the most special to the most general."""
    for name in classes:
        simple = name.removeprefix(_PACKAGE)
        if simple != name and simple in names:
            yield names[simple]


def _read_classic_classes(error: Any, *_: Any) -> tuple[list[str], str]:  # noqa: ANN401 - the JVM's
    """Return the names of an error's classes, and an empty prefix."""
    names, java_class = [], error.getClass()
    while java_class is not None:
        names.append(str(java_class.getName()))
        java_class = java_class.getSuperclass()
    return names, ""


def _read_connect_classes(info: Any, *_: Any) -> tuple[list[str], str]:  # noqa: ANN401 - protocol buffers
    """Return the names of an error's classes, and the client's prefix for texts without a class."""
    return json.loads(info.metadata.get("classes") or "[]"), f"({info.reason}) "


def _recast(kind: type[BaseException], converted: BaseException, prefix: str) -> BaseException:
    """Return an exception of PySpark as one of another class too, with all its facts.

    PySpark raises an unknown exception as `UnknownException`; the result no longer has that class.
    """
    classes = (of for of in type(converted).__mro__ if of.__name__ != "UnknownException")
    both = _both(kind, next(classes))
    error: Any = both.__new__(both, *converted.args)
    error.__dict__.update(vars(converted))
    if prefix:
        error._message = str(error._message or "").removeprefix(prefix)
    return error  # type: ignore[no-any-return] # of both classes


_made: dict[tuple[type, type], type[BaseException]] = {}


def _both(kind: type[BaseException], of_spark: type[BaseException]) -> type[BaseException]:
    if (kind, of_spark) not in _made:
        body = {
            "__doc__": kind.__doc__,
            "__module__": kind.__module__,
            "conflict": None,  # only delta-spark's text is known
            "facts": _facts,
            "__str__": of_spark.__str__,
            **{
                name: _spark_attribute(of_spark, name)
                for name in _QUESTIONS
                if hasattr(of_spark, name)
            },
        }
        _made[kind, of_spark] = type(kind.__name__, (kind, of_spark), body)
    return _made[kind, of_spark]


_QUESTIONS = (
    "getCondition",
    "getErrorClass",
    "getMessage",
    "getMessageParameters",
    "getQueryContext",
    "getSqlState",
    "getStackTrace",
)


def _spark_attribute(of_spark: type, name: str) -> Callable[..., Any]:
    answer: Callable[..., Any] = getattr(of_spark, name)
    return answer


def _facts(error: Any) -> dict[str, Any]:  # noqa: ANN401 - of a class made above
    """Return the error as JSON-ready values: delta-spark gives only its text."""
    return {
        "code": error.getCondition(),
        "sqlstate": error.getSqlState(),
        "message": str(error),
        "exception": type(error).__name__,
    }


install()
_delta_exception_patched = True
"""Marks for programs of delta-spark that the patch is done."""
