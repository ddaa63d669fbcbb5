"""Identity columns: the table numbers rows unless a write does (protocol: Identity Columns).

The numbers are dense within one write. The schema keeps the last one, so that two concurrent writes
cannot assign the same number: both change the metadata, and the second one is aborted.
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.errors import RequestError
from engine.schema.types import StructField, StructType
from engine.schema.write_errors import IdentityInsertError
from engine.spark.collection import materialize_rows
from engine.spark.columns import column, to_spark_type

START = "delta.identity.start"
STEP = "delta.identity.step"
HIGH_WATER_MARK = "delta.identity.highWaterMark"
EXPLICIT = "delta.identity.allowExplicitInsert"
_NUMBER = "__lake_number"
_NUMBERS = 1 << 63
_WITHIN_PARTITION = (1 << 33) - 1


def identity_columns(schema: StructType) -> list[StructField]:
    """Return the columns whose values the table generates."""
    return [field for field in schema if START in field.metadata]


def check_explicit(schema: StructType, given: StructType) -> None:
    """Refuse values for columns that only the table may number.

    Raises:
        IdentityInsertError: the data holds such a column.
    """
    for identity_column in identity_columns(schema):
        if given.get(identity_column.name) is not None and not identity_column.metadata.get(
            EXPLICIT, False
        ):
            msg = (
                f"{identity_column.name} is GENERATED ALWAYS AS IDENTITY, so the table "
                "assigns its values."
            )
            raise IdentityInsertError(msg, "Remove the column.", field="source")


def restore_latest_marks(schema: StructType, latest: StructType) -> StructType:
    """Return a schema whose identity columns never repeat a number of the latest schema."""
    return StructType(tuple(_latest(field, latest.get(field.name)) for field in schema))


def number_rows(
    frame: DataFrame, schema: StructType, given: StructType
) -> tuple[DataFrame, StructType]:
    """Add missing identity columns; return the rows and the schema with the last numbers."""
    missing = [
        identity_column
        for identity_column in identity_columns(schema)
        if given.get(identity_column.name) is None
    ]
    if not missing:
        return frame, schema
    numbered, count = _number_rows(frame)
    if not count:
        nothing = {field.name: F.lit(None).cast(to_spark_type(field.type)) for field in missing}
        return numbered.drop(_NUMBER).withColumns(nothing), schema
    updated = {}
    for field in missing:
        first, step = _next(field), int(field.metadata.get(STEP, 1))
        last = first + (count - 1) * step
        if not -_NUMBERS <= min(first, last) <= max(first, last) < _NUMBERS:
            msg = (
                f"The identity column {field.name} has no values left: {count} more rows "
                f"would exceed {last}."
            )
            raise RequestError(msg, "Load the rows into a new table.", field="source")
        numbered = numbered.withColumn(field.name, F.lit(first) + column(_NUMBER) * step)
        updated[field.name] = replace(field, metadata={**field.metadata, HIGH_WATER_MARK: last})
    fields = tuple(updated.get(field.name, field) for field in schema)
    return numbered.drop(_NUMBER), StructType(fields)


def _latest(field: StructField, now: StructField | None) -> StructField:
    if now is None or START not in field.metadata or HIGH_WATER_MARK not in now.metadata:
        return field
    start, step = int(field.metadata[START]), int(field.metadata.get(STEP, 1))
    steps = -(-(int(now.metadata[HIGH_WATER_MARK]) - start) // step)  # rounded up to its sequence
    own = field.metadata.get(HIGH_WATER_MARK)
    if steps < 0 or (own is not None and steps <= (int(own) - start) // step):
        return field
    mark = start + steps * step
    return replace(field, metadata={**field.metadata, HIGH_WATER_MARK: mark})


def _next(field: StructField) -> int:
    mark = field.metadata.get(HIGH_WATER_MARK)
    if mark is None:
        return int(field.metadata[START])
    return int(mark) + int(field.metadata.get(STEP, 1))


def _number_rows(frame: DataFrame) -> tuple[DataFrame, int]:
    """Assign numbers from 0 without a gap; keep the rows so that they are numbered once."""
    marked = frame.withColumn(_NUMBER, F.monotonically_increasing_id())
    kept = materialize_rows(marked)
    part = F.shiftright(column(_NUMBER), 33)
    counts = kept.groupBy(part.alias("part")).count().orderBy("part").collect()
    offsets, total = [], 0
    for row in counts:
        offsets.append((int(row["part"]), total))
        total += int(row["count"])
    if not total:
        return kept, 0
    offset_rows = kept.sparkSession.createDataFrame(offsets, "__part long, __offset long")
    joined = kept.join(F.broadcast(offset_rows), part == column("__part"))
    within = column(_NUMBER).bitwiseAND(F.lit(_WITHIN_PARTITION))
    return joined.withColumn(_NUMBER, column("__offset") + within).drop("__part", "__offset"), total
