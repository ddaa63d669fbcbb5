"""The exceptions of `delta.exceptions`, over the engine's own: catching either works.

An error of the engine leaves this API as a subclass of its own class and of PySpark's class for its
kind, with all of its facts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    PySparkException,
    UnsupportedOperationException,
)

from engine import errors
from engine.snapshot.new_table import IdentityTypeError
from engine.spark.failures import InvalidValueError, ValueNotParsedError, ValueOverflowError


class _WithDefaults(PySparkException):
    """An exception of PySpark whose text exists even before `__init__` ran."""

    _errorClass: str | None = None  # noqa: N815 - PySpark's
    _message: str = ""


class DeltaConcurrentModificationException(_WithDefaults):
    """Another commit won, and this write would not be serializable after it."""


class ConcurrentWriteException(errors.ConflictError, DeltaConcurrentModificationException):
    """A concurrent commit wrote data that this write read; the subclasses name the data."""


class MetadataChangedException(
    errors.MetadataChangedException, DeltaConcurrentModificationException
):
    """The winning commit changed the table's metadata. Raised as delta-spark's class too."""


class ProtocolChangedException(
    errors.ProtocolChangedException, DeltaConcurrentModificationException
):
    """The winning commit changed the protocol, or created the table first. Raised as delta-spark's class too."""


class ConcurrentAppendException(
    errors.ConcurrentAppendException, DeltaConcurrentModificationException
):
    """Files were added that this write should have read. Raised as delta-spark's class too."""


class ConcurrentDeleteReadException(
    errors.ConcurrentDeleteReadException, DeltaConcurrentModificationException
):
    """A file read by this write was deleted or rewritten. Raised as delta-spark's class too."""


class ConcurrentDeleteDeleteException(
    errors.ConcurrentDeleteDeleteException, DeltaConcurrentModificationException
):
    """A file deleted by this write was deleted or rewritten. Raised as delta-spark's class too."""


class ConcurrentTransactionException(
    errors.ConcurrentTransactionException, DeltaConcurrentModificationException
):
    """Another write of the same application id committed first. Raised as delta-spark's class too."""


_CONFLICTS: dict[type[errors.EngineError], type[errors.EngineError]] = {
    errors.ConflictError: ConcurrentWriteException,
    errors.MetadataChangedException: MetadataChangedException,
    errors.ProtocolChangedException: ProtocolChangedException,
    errors.ConcurrentAppendException: ConcurrentAppendException,
    errors.ConcurrentDeleteReadException: ConcurrentDeleteReadException,
    errors.ConcurrentDeleteDeleteException: ConcurrentDeleteDeleteException,
    errors.ConcurrentTransactionException: ConcurrentTransactionException,
}
_KINDS: tuple[tuple[type[errors.EngineError], type[PySparkException]], ...] = (
    (errors.RetentionTooShortError, IllegalArgumentException),
    (errors.InvalidPropertyError, IllegalArgumentException),
    (errors.IllegalOptionError, IllegalArgumentException),
    (ValueOverflowError, ArithmeticException),
    (ValueNotParsedError, NumberFormatException),
    (InvalidValueError, IllegalArgumentException),
    (errors.AppendOnlyError, UnsupportedOperationException),
    (IdentityTypeError, UnsupportedOperationException),
    (errors.MultipleSourceRowsError, UnsupportedOperationException),
    (errors.RequestError, AnalysisException),
    (errors.TableNotFoundError, AnalysisException),
    (errors.TableExistsError, AnalysisException),
    (errors.VersionNotFoundError, AnalysisException),
    (errors.TimestampOutOfRangeError, AnalysisException),
)
_made: dict[type[errors.EngineError], type[errors.EngineError]] = {}
NAMES: dict[str, type[BaseException]] = {
    kind.__name__: kind for kind in (*_CONFLICTS.values(), DeltaConcurrentModificationException)
}


@contextmanager
def delta_errors() -> Iterator[None]:
    """Raise the engine's errors under delta-spark's names.

    Spark's own errors about a condition or a value are raised as they are.
    """
    try:
        yield
    except errors.EngineError as error:
        if isinstance(error, PySparkException):
            raise
        told = error.__cause__
        if isinstance(told, AnalysisException) and not isinstance(told, errors.EngineError):
            raise told from error
        raise convert_error(error) from error


def convert_error(error: errors.EngineError) -> errors.EngineError:
    """Return the error as one of PySpark's too, with its facts; its text begins with its code."""
    kind = _class_of(type(error))
    raised: Any = kind.__new__(kind, str(error))
    raised.__dict__.update(error.__dict__)
    PySparkException.__init__(raised, message=str(error))
    raised._errorClass = error.code
    return raised  # type: ignore[no-any-return] # both classes' __init__ were run by hand


def _class_of(kind: type[errors.EngineError]) -> type[errors.EngineError]:
    if kind in _CONFLICTS:
        return _CONFLICTS[kind]
    if kind not in _made:
        base = next(
            (of for engine_kind, of in _KINDS if issubclass(kind, engine_kind)), PySparkException
        )
        body = {"__doc__": kind.__doc__, "getSqlState": lambda self: self.sqlstate}
        _made[kind] = type(kind.__name__, (kind, _WithDefaults, base), body)
    return _made[kind]
