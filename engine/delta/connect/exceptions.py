"""The names of `delta.connect.exceptions`, also for what delta-spark's server raises."""

import pyspark.sql.connect.client.core  # noqa: F401 - where its errors are made

from engine.delta import delta_spark_errors
from engine.delta.exceptions import (
    NAMES,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
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
]

delta_spark_errors.install(NAMES)
