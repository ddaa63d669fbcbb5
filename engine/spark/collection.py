"""Small results of Spark: collected on the driver, broadcast to every task, or kept for a run.

Spark guesses the size of a side of a join from its plan. Here its rows were counted, so a small
side is broadcast and the other one is not shuffled.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark_types

from engine.spark.columns import quote_column
from engine.spark.data_source_options import size_in_bytes
from engine.spark.failures import SPARK_ERRORS, causes_of
from engine.spark.session import is_remote

MOST_BYTES = 64 * 1024 * 1024
"""Limit on rows sent to the driver."""
_SMALL = "__lake_small"
RESULT_LIMIT = "spark.driver.maxResultSize"
_WIDEST = 16
"""Bytes of a number, a time or a boolean, at most."""
_TEXTS = (spark_types.StringType, spark_types.BinaryType)
_FREE = (spark_types.ArrayType, spark_types.MapType, spark_types.VariantType)

_DEFAULT_LIMIT = "1g"
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"

_KEPT: ContextVar[list[DataFrame] | None] = ContextVar("_KEPT", default=None)


@dataclass(frozen=True)
class FrameSize:
    """The number of rows of a frame, and the approximate bytes of each of its columns."""

    rows: int
    by_column: Mapping[str, int]

    def bytes_of(self, names: Iterable[str] | None = None) -> int:
        """Return the bytes of some columns, or of all."""
        return sum(self.by_column[name] for name in (self.by_column if names is None else names))


def collect_rows(frame: DataFrame) -> pa.Table | None:
    """Return the rows; None if they exceed Spark's result limit."""
    try:
        return frame.toArrow()
    except SPARK_ERRORS as error:
        if not any(RESULT_LIMIT in cause.text for cause in causes_of(error)):
            raise
        return None


def collect_if_small(
    frame: DataFrame, most_rows: int, most_bytes: int = MOST_BYTES
) -> pa.Table | None:
    """Return the rows, at most `most_rows`; None if they may exceed `most_bytes`.

    Nothing inside a column may be declared NOT NULL: Arrow does not accept a null struct with such
    fields. A row over its share of the bytes comes without its texts, lists and maps, so that the
    driver's memory stays within the bound.
    """
    names = frame.columns
    if len({name.lower() for name in names}) < len(names):  # a data and a partition column share it
        frame = frame.toDF(*map(str, range(len(names))))
    fixed, free = _widths(frame.schema)
    share = most_bytes // max(1, most_rows) - sum(fixed.values())
    if share < 0:
        return None
    if not free:
        return collect_rows(frame)
    judged = frame.selectExpr("*", f"{' + '.join(free.values())} <= {share} AS {_SMALL}")
    sent = [
        _render_guarded_column(name) if name in free else quote_column(name)
        for name in frame.columns
    ]
    report = collect_rows(judged.selectExpr(*sent, _SMALL))
    if report is None or pc.all(report.column(_SMALL)).as_py() is False:
        return None
    return report.drop_columns([_SMALL])


def size_of_all(frame: DataFrame) -> FrameSize:
    """Measure the bytes of every row. No two columns may share a name."""
    fixed, free = _widths(frame.schema)
    sums = [f"sum({width})" for width in free.values()]
    [[rows, *sizes]] = frame.selectExpr("count(1)", *sums).collect()
    by_column = {name: rows * width for name, width in fixed.items()}
    texts = {name: size or 0 for name, size in zip(free, sizes, strict=True)}
    return FrameSize(rows, by_column | texts)


def _render_guarded_column(name: str) -> str:
    return f"CASE WHEN {_SMALL} THEN {quote_column(name)} END AS {quote_column(name)}"


def _widths(schema: spark_types.StructType) -> tuple[dict[str, int], dict[str, str]]:
    """Return fixed widths in bytes of columns, and SQL expressions for the rest, by name."""
    fixed, free = dict[str, int](), dict[str, str]()
    for field in schema.fields:
        width = _width(field.dataType)
        if width is None:
            is_text = isinstance(field.dataType, _TEXTS)
            text = (
                quote_column(field.name)
                if is_text
                else f"CAST({quote_column(field.name)} AS STRING)"
            )
            free[field.name] = f"CAST(COALESCE(octet_length({text}), 0) AS BIGINT)"
        else:
            fixed[field.name] = width
    return fixed, free


def _width(kind: spark_types.DataType) -> int | None:
    if isinstance(kind, spark_types.StructType):
        widths = [_width(field.dataType) for field in kind.fields]
        fixed = [width for width in widths if width is not None]
        return sum(fixed) if len(fixed) == len(widths) else None
    is_free = isinstance(kind, (*_TEXTS, *_FREE))
    return None if is_free else _WIDEST


def broadcast_if_small(frame: DataFrame, size: int) -> DataFrame:
    """Mark the frame for broadcast if its `size` in bytes allows it.

    Spark first builds the whole table on the driver, which takes several times its bytes.
    """
    if size > MOST_BYTES:
        return frame
    settings = frame.sparkSession.conf
    threshold, limit = (settings.get(name, None) for name in (_THRESHOLD, RESULT_LIMIT))
    return F.broadcast(frame) if may_send(size, threshold or "", limit or "") else frame


def may_send(size: int, threshold: str, limit: str) -> bool:
    """Whether a side of this many bytes may be broadcast.

    It may not if the session's `threshold` disables broadcast joins (negative) or if the driver's
    result `limit` is less than twice the size. Empty texts stand for Spark's defaults.
    """
    most = size_in_bytes(limit or _DEFAULT_LIMIT)
    if threshold.startswith("-") or size > MOST_BYTES or most is None:
        return False
    return most == 0 or 2 * size <= most


def materialize_rows(frame: DataFrame) -> DataFrame:
    """Compute the rows now, once.

    `rows_given_up` frees them. Outside of it, Spark frees them some time after the last reference.
    """
    rows = frame.localCheckpoint(eager=True)
    kept = _KEPT.get()
    if kept is not None:
        kept.append(rows)
    return rows


@contextmanager
def rows_given_up() -> Iterator[None]:
    """Free the rows of every `materialize_rows` inside: memory and disk of the executors."""
    kept: list[DataFrame] = []
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for rows in kept:
            _free(rows)


def _free(rows: DataFrame) -> None:
    if is_remote(rows.sparkSession):
        return  # its server frees them with the frame
    inside: Any = rows
    with suppress(Py4JError, OSError):  # Spark may be gone by now
        inside._jdf.queryExecution().logical().rdd().unpersist(False)
