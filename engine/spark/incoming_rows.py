"""Rows of a DataFrame checked by Arrow against a table's rules, where the plan is already fixed.

The operations let Spark complete and check rows; Spark's writers of Python data sources get
batches. A check that Arrow cannot do exactly as Spark would is refused by name, never skipped.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.table import Metadata
from engine.errors import (
    CannotEvaluateError,
    ExpressionError,
    RequestError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.parse import parse_expression
from engine.expressions.traits import columns_of
from engine.expressions.tree import Call, Expression
from engine.schema.text_lengths import TEXT_TYPE, limit_of, read_declared_type
from engine.schema.types import (
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.schema.write_errors import row_breaks
from engine.snapshot.conform import target_type
from engine.spark.columns import to_spark_type
from engine.spark.identity import identity_columns
from engine.spark.nested_rules import value_fitted, value_keeps
from engine.spark.table_rules import DEFAULT, GENERATED, RowRule, table_rules

_WIDER = {
    "byte": {"short", "integer", "long"},
    "short": {"integer", "long"},
    "integer": {"long"},
    "float": {"double"},
}
_CHAR = re.compile(r"\bchar\(")
_ANOTHER_WAY = "Write with the engine's append command, or its foreachBatch writer."


@dataclass(frozen=True)
class IncomingRows:
    """The conversion of a DataFrame's batches to rows of a table; it is pickled for the executors.

    Attributes:
        table: its location, for messages.
        schema: the table's columns.
        given: the columns of the batches, by the table's spelling, in their order.
        rules: the rules for every row.
        generated: the generated columns with their expressions.
        defaults: values for columns missing from the batches.
    """

    table: str
    schema: StructType
    given: tuple[str, ...]
    rules: tuple[RowRule, ...]
    generated: tuple[tuple[StructField, Expression], ...] = ()
    defaults: tuple[tuple[StructField, Expression | None], ...] = ()

    @classmethod
    def plan(
        cls,
        table: str,
        metadata: Metadata,
        schema: StructType,
        data: StructType,
        now_ms: int,
        *,
        by_session: bool = False,
    ) -> "IncomingRows":
        """Plan the conversion for rows of the schema `data`; `by_session` as in `parse_condition`.

        Raises:
            SchemaMismatchError: the table does not accept the columns or types.
            UnsupportedFeatureError: the engine does not support a rule of the table.
            RequestError: only Spark could check a rule, number rows, or pad text.
        """
        _check_columns(schema, data)
        numbered = identity_columns(schema)
        if numbered:
            msg = (
                f"{table} numbers its rows in {numbered[0].name}, which this way of writing cannot."
            )
            raise RequestError(msg, _ANOTHER_WAY, field="path")
        padded = next((field for field in schema if _is_padded(field)), None)
        if padded is not None:
            msg = f"{table} fills {padded.name} up with spaces, which this way of writing cannot."
            raise RequestError(msg, _ANOTHER_WAY, field="path")
        have = {field.name.lower() for field in data}
        missing = [field for field in schema if field.name.lower() not in have]
        plain = [field for field in missing if GENERATED not in field.metadata]
        rows = cls(
            table,
            schema,
            tuple(declared.name for field in data if (declared := schema.get(field.name))),
            tuple(table_rules(table, schema, metadata, by_session=by_session)),
            tuple(
                (
                    field,
                    _parse_rule(
                        table, str(field.metadata[GENERATED]), schema, field, None, by_session
                    ),
                )
                for field in schema
                if GENERATED in field.metadata
            ),
            tuple((field, _default(table, field, now_ms, by_session)) for field in plain),
        )
        rows.apply(_empty(data))
        return rows

    def expressions(self) -> Iterator[Expression]:
        """Iterate over the expressions that it evaluates, cast to the types of their columns."""
        for rule in self.rules:
            if rule.condition is not None:
                yield rule.condition
        for field, value in (*self.generated, *self.defaults):
            if value is not None:
                yield value if value.type == field.type else Call("cast", (value,), field.type)

    def apply(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows of a batch under the table's columns, checked against every rule.

        Raises:
            InvariantViolationError: a row breaks a rule; the first is shown.
            RequestError: Arrow cannot check a row.
        """
        columns = {
            name: _cast_to_kind(column, self._type(name))
            for name, column in zip(self.given, batch.columns, strict=True)
        }
        count = batch.num_rows
        for field, value in self.defaults:
            columns[field.name] = _constant(self.table, field, value, count)
        for field in self.schema:
            if field.name in columns:
                columns[field.name] = _fit_text_lengths(columns[field.name], field)
        table = pa.table(columns) if columns else pa.table({"": pa.nulls(count)})
        for field, value in self.generated:
            computed = _evaluate_rule(
                self.table, f"The generated column {field.name}", value, table
            )
            computed = computed.cast(target_type(field.type))
            if field.name in columns:
                same = _same(table.column(field.name), computed)
                self._refuse(table, same, f"the generation of {field.name}", [field.name])
            else:
                table = table.append_column(field.name, computed)
        self._enforce(table)
        return table.select(self.schema.names)

    def _enforce(self, table: pa.Table) -> None:
        for rule in self.rules:
            if rule.held is not None:
                holds = _each_keeps(table.column(rule.not_null[0]), rule.held)
                self._refuse(table, holds, rule.name, [rule.not_null[0]])
            elif rule.condition is None:
                holds = pc.is_valid(_read_nested_column(table, rule.not_null))
                self._refuse(table, holds, rule.name, [rule.not_null[0]])
            else:
                holds = _evaluate_rule(self.table, f"The rule {rule.name}", rule.condition, table)
                names = sorted({path[0] for path in columns_of(rule.condition)})
                self._refuse(table, holds, rule.name, names)

    def _refuse(
        self, table: pa.Table, holds: pa.ChunkedArray, rule: str, names: Sequence[str]
    ) -> None:
        broken = pc.invert(pc.fill_null(holds.cast(pa.bool_()), True))
        if not pc.any(broken).as_py():
            return
        row = table.select(list(names)).filter(broken).slice(0, 1).to_pylist()[0]
        shown = ", ".join(f"{name} = {_render_json(value)}"[:200] for name, value in row.items())
        raise row_breaks(rule, shown)

    def _type(self, name: str) -> pa.DataType:
        field = self.schema.get(name)
        return target_type(field.type) if field else pa.null()


def _check_columns(schema: StructType, data: StructType) -> None:
    seen: set[str] = set()
    for field in data:
        declared = schema.get(field.name)
        if declared is None:
            msg = f"The data has the column {field.name}, which the table lacks."
            raise SchemaMismatchError(msg, "Leave it out, or add it to the table.", field="source")
        if declared.name in seen:
            msg = f"The data has the column {declared.name} twice."
            raise SchemaMismatchError(msg, "Leave one out.", field="source")
        seen.add(declared.name)
        if not _fits(field.type, declared.type):
            given, expected = (to_spark_type(t).simpleString() for t in (field.type, declared.type))
            msg = f"The column {declared.name} is a {expected}, and the data has a {given}."
            raise SchemaMismatchError(msg, "Cast it in the DataFrame.", field="source")


def _render_json(value: object) -> str:
    """Render a value as the checks in Spark do."""
    return json.dumps(value, default=str, ensure_ascii=False)


def _fits(data: DataType, table: DataType) -> bool:
    """Whether Arrow turns every value of one type into the other as Spark does."""
    if to_spark_type(data) == to_spark_type(table):
        return True
    if isinstance(data, DecimalType) and isinstance(table, DecimalType):
        whole = table.precision - table.scale >= data.precision - data.scale
        return whole and table.scale >= data.scale
    if isinstance(data, PrimitiveType) and isinstance(table, PrimitiveType):
        return data.name == "void" or table.name in _WIDER.get(data.name, set())
    return False


def _is_padded(field: StructField) -> bool:
    """Whether the column holds a CHAR, which has a fixed length."""
    return bool(_CHAR.search(str(field.metadata.get(TEXT_TYPE, ""))))


def _parse_rule(
    table: str,
    text: str,
    schema: StructType,
    field: StructField,
    now_ms: int | None,
    by_session: bool,
) -> Expression:
    try:
        return parse_expression(text, schema, now_ms=now_ms, by_session=by_session)
    except ExpressionError as error:
        what = f"column {field.name} ({text})"[:300]
        raise UnsupportedFeatureError(table, [what], "write") from error


def _default(table: str, field: StructField, now_ms: int, by_session: bool) -> Expression | None:
    text = field.metadata.get(DEFAULT)
    if text is None:
        return None
    return _parse_rule(table, str(text), StructType(), field, now_ms, by_session)


def _constant(table: str, field: StructField, value: Expression | None, count: int) -> pa.Array:
    kind = target_type(field.type)
    if value is None:
        return pa.nulls(count, kind)
    one = pa.table({"": pa.nulls(1)})
    default = _evaluate_rule(table, f"The default of {field.name}", value, one).cast(kind)
    return pa.repeat(default[0], count)


def _evaluate_rule(table: str, what: str, tree: Expression, rows: pa.Table) -> pa.ChunkedArray:
    try:
        return evaluate_arrow(tree, rows)
    except CannotEvaluateError as error:
        msg = f"{what[:300]} of {table} cannot be evaluated exactly in this way of writing."
        raise RequestError(msg, _ANOTHER_WAY, field="path") from error


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(both_null, pc.fill_null(pc.equal(one, other), False))


def _read_nested_column(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    array = table.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _each_keeps(values: pa.ChunkedArray, held: DataType) -> pa.ChunkedArray:
    kept = [value_keeps(value, held) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(kept, pa.bool_())])


def _fit_text_lengths(values: pa.Array, field: StructField) -> pa.Array:
    """Cut spaces beyond the column's length, as Spark does."""
    if TEXT_TYPE not in field.metadata:
        return values
    declared = read_declared_type(field)
    _, length = limit_of(declared)
    if length and (pc.max(pc.utf8_length(values)).as_py() or 0) <= length:
        return values
    kept = values.to_pylist()
    fitted = [value_fitted(value, declared) for value in kept]
    return values if fitted == kept else pa.array(fitted, values.type)


def _cast_to_kind(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _empty(data: StructType) -> pa.RecordBatch:
    fields = [pa.field(column.name, target_type(column.type)) for column in data]
    arrays = [pa.nulls(0, field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
