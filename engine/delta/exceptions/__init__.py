"""The exceptions of `delta.exceptions`. Once imported, PySpark raises them for delta-spark too."""

import engine.delta.exceptions.jvm_exceptions  # noqa: F401 - has PySpark raise them
from engine.delta.exceptions.base import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
    convert_error,
    delta_errors,
)

__all__ = [
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "convert_error",
    "delta_errors",
]
