"""The rows of an INSERT as table columns: those of the source, and the constants of PARTITION."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from engine.commands.model import Append, Overwrite
from engine.commands.partitions import check_times, static_values
from engine.errors import RequestError
from engine.expressions.tree import Expression
from engine.operations.arrow_rows import evaluate_as
from engine.operations.execution import Execution
from engine.operations.literal_rows import rows_at_hand
from engine.operations.source_rows import source_rows
from engine.operations.write_rows import WriteTerms
from engine.schema.arrow import to_arrow_type
from engine.schema.types import StructField, StructType
from engine.spark.columns import to_column
from engine.spark.session import is_in_utc
from engine.spark.sources import SourceRows
from engine.transaction.optimistic_transaction import OptimisticTransaction

_ONE_ROW = pa.table({"": pa.nulls(1)})


def read_source_rows(
    execution: Execution, command: Append | Overwrite, terms: WriteTerms, txn: OptimisticTransaction
) -> SourceRows:
    """Return the rows of a command's source, with the constants of its PARTITION.

    Raises:
        RequestError: PARTITION names a column that is no partition column, or is also in the
            source.
    """
    constants = _constants(execution, command.partition, terms)
    columns, evolves = _drop_constants(terms.schema, constants), command.merge_schema
    rows = source_rows(execution, command.source, columns, txn, takes_more=evolves)
    _check_apart(constants, rows.schema.names)
    frame, fields = rows.frame, list(rows.schema.fields)
    for name, value in constants.items():
        frame = frame.withColumn(name, to_column(value))
        fields.append(StructField(name, value.type))
    return replace(rows, frame=frame, schema=StructType(tuple(fields)))


def read_rows_in_process(
    execution: Execution, command: Append, terms: WriteTerms
) -> pa.Table | None:
    """Return the same rows as `read_source_rows`, as Arrow; None if they need Spark.

    Raises:
        CannotEvaluateError: only Spark can cast a constant.
    """
    constants = _constants(execution, command.partition, terms)
    at_hand = rows_at_hand(execution, command.source, _drop_constants(terms.schema, constants))
    if at_hand is None:
        return None
    rows = at_hand[0]
    _check_apart(constants, rows.column_names)
    for name, value in constants.items():
        one = evaluate_as(value.type, value, _ONE_ROW)[0].cast(to_arrow_type(value.type))
        rows = rows.append_column(name, pa.repeat(one, rows.num_rows))
    return rows


def _constants(
    execution: Execution, partition: Mapping[str, str], terms: WriteTerms
) -> dict[str, Expression]:
    columns = {name.lower() for name in terms.metadata.partition_columns}
    for name in partition:
        if name.strip("`").lower() not in columns:
            shown = ", ".join(terms.metadata.partition_columns) or "none"
            msg = f"{name} is in PARTITION, and is no partition column."
            raise RequestError(msg, f"The partition columns are: {shown}.", field="partition")
    if not (execution.has_engine_terms or is_in_utc(execution.caller)):
        check_times(partition, terms.schema)
    return static_values(partition, terms.schema)


def _drop_constants(schema: StructType, constants: Mapping[str, Expression]) -> StructType:
    return StructType(tuple(field for field in schema if field.name not in constants))


def _check_apart(constants: Mapping[str, Expression], names: list[str]) -> None:
    given = {name.lower() for name in names}
    both = [name for name in constants if name.lower() in given]
    if both:
        msg = f"{both[0]} has a value in PARTITION, and the source has it too."
        raise RequestError(msg, "Leave it out of one of them.", field="partition")
