"""A table's rules for its rows (`engine.snapshot.row_rules`), evaluated by Arrow.

Small statements and Spark's writers of Python data sources have batches of rows. A check that Arrow
cannot do exactly as Spark would is refused by name, never skipped.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.table import Metadata
from engine.errors import CannotEvaluateError, RequestError, SchemaMismatchError
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.tree import Call, Column, Expression
from engine.schema.text_lengths import drop_limits, has_limits, limit_of, read_declared_type
from engine.schema.types import (
    BOOLEAN,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.schema.write_errors import row_breaks
from engine.snapshot.conform import target_type
from engine.snapshot.row_rules import GENERATED, RowRule, RuleParser, text_columns
from engine.spark.columns import to_spark_type
from engine.spark.write.identity import identity_columns
from engine.spark.write.row_checks import MOST_SHOWN_COLUMNS
from engine.spark.write.shape import check_assignable

_WIDER = {
    "byte": {"short", "integer", "long"},
    "short": {"integer", "long"},
    "integer": {"long"},
    "float": {"double"},
}
_ANOTHER_WAY = "Write with the engine's append command, or its foreachBatch writer."
_MOST_SHOWN = 500


@dataclass(frozen=True)
class IncomingRows:
    """The conversion of a DataFrame's batches to rows of a table; it is pickled for the executors.

    Attributes:
        table: its location, for messages.
        schema: the table's columns.
        given: the columns of the batches, by the table's spelling, in their order.
        rules: the rules for every row.
        generated: the generated columns missing from the batches, with their values.
        defaults: values for columns missing from the batches.
    """

    table: str
    schema: StructType
    given: tuple[str, ...]
    rules: tuple[RowRule, ...]
    generated: tuple[tuple[StructField, Expression], ...]
    defaults: tuple[tuple[StructField, Expression | None], ...]

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
            RequestError: only Spark could check a rule or number rows.
        """
        _check_columns(schema, data)
        numbered = identity_columns(schema)
        if numbered:
            msg = (
                f"{table} has the identity column {numbered[0].name}, which this way of "
                "writing does not support."
            )
            raise RequestError(msg, _ANOTHER_WAY, field="path")
        have = {field.name.lower() for field in data}
        missing = [field for field in schema if field.name.lower() not in have]
        parser = RuleParser(table, schema, by_session)
        given = tuple(declared.name for field in data if (declared := schema.get(field.name)))
        rows = cls(
            table,
            schema,
            given,
            tuple(parser.list_rules(metadata, given)),
            tuple((f, parser.parse_generated(f)) for f in missing if GENERATED in f.metadata),
            tuple(
                (f, parser.parse_default(f, now_ms)) for f in missing if GENERATED not in f.metadata
            ),
        )
        rows.apply(_empty(data))
        return rows

    def expressions(self) -> Iterator[Expression]:
        """Iterate over the expressions that it evaluates."""
        for rule in self.rules:
            yield from filter(None, (rule.condition, rule.computed))
        for _, value in (*self.generated, *self.defaults):
            if value is not None:
                yield value

    def apply(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows of a batch under the table's columns, checked against every rule.

        Raises:
            InvariantViolationError: a row breaks a rule; the first is shown.
            RequestError: Arrow cannot check a row.
        """
        columns = {
            name: column.cast(self._type(name))
            for name, column in zip(self.given, batch.columns, strict=True)
        }
        count = batch.num_rows
        for field, value in self.defaults:
            columns[field.name] = self._constant(field, value, count)
        for name, declared in text_columns(self.schema):
            if name in columns:
                columns[name] = _fit_text_lengths(columns[name], declared)
        table = pa.table(columns) if columns else pa.table({"": pa.nulls(count)})
        for field, value in self.generated:
            computed = self._compute(f"generated column {field.name}", value, table)
            computed = _fit_text_lengths(computed, read_declared_type(field))
            table = table.append_column(field.name, computed.cast(target_type(field.type)))
        for rule in self.rules:
            self._refuse(table, self._holds(rule, table), rule)
        return table.select(self.schema.names)

    def _holds(self, rule: RowRule, table: pa.Table) -> pa.ChunkedArray:
        if rule.condition is not None:
            return self._compute(rule.name, rule.condition, table)
        name = rule.columns[0]
        if rule.computed is None:
            kept = [_keeps(value, rule.declared) for value in table.column(name).to_pylist()]
            return pa.chunked_array([pa.array(kept, pa.bool_())])
        computed = self._compute(rule.name, rule.computed, table)
        both = pa.table(
            [table.column(name), _fit_text_lengths(computed, rule.declared)], ["a", "b"]
        )
        kind = drop_limits(rule.declared)
        same = Call("<=>", (Column(("a",), kind), Column(("b",), kind)), BOOLEAN)
        return self._compute(rule.name, same, both)

    def _compute(self, what: str, value: Expression, rows: pa.Table) -> pa.ChunkedArray:
        try:
            return evaluate_arrow(value, rows)
        except CannotEvaluateError as error:
            msg = f"{self.table}: {what[:300]} cannot be evaluated exactly in this way of writing."
            raise RequestError(msg, _ANOTHER_WAY, field="path") from error

    def _constant(self, field: StructField, value: Expression | None, count: int) -> pa.Array:
        kind = target_type(field.type)
        if value is None:
            return pa.nulls(count, kind)
        one = pa.table({"": pa.nulls(1)})
        default = self._compute(f"the default of {field.name}", value, one).cast(kind)
        return pa.repeat(default[0], count)

    def _refuse(self, table: pa.Table, holds: pa.ChunkedArray, rule: RowRule) -> None:
        broken = pc.invert(pc.fill_null(holds.cast(pa.bool_()), True))
        if not pc.any(broken).as_py():
            return
        shown = table.select(rule.columns[:MOST_SHOWN_COLUMNS]).filter(broken).slice(0, 1)
        values = (f"{k} = {_render_json(value)}" for k, value in shown.to_pylist()[0].items())
        raise row_breaks(rule.name, ", ".join(values)[:_MOST_SHOWN])

    def _type(self, name: str) -> pa.DataType:
        field = self.schema.get(name)
        return target_type(field.type) if field else pa.null()


def _check_columns(schema: StructType, data: StructType) -> None:
    check_assignable(schema, data)
    seen: set[str] = set()
    for field, declared in ((f, d) for f in data if (d := schema.get(f.name))):
        if declared.name in seen:
            msg = f"The data has two columns called {declared.name}."
            raise SchemaMismatchError(msg, "Remove one of them.", field="source")
        seen.add(declared.name)
        if not _fits(field.type, declared.type):
            given, expected = (to_spark_type(t).simpleString() for t in (field.type, declared.type))
            msg = (
                f"The column {declared.name} has the type {expected}, but the data has the "
                f"type {given}."
            )
            raise SchemaMismatchError(msg, "Cast it in the DataFrame.", field="source")


def _render_json(value: object) -> str:
    """Render a value as the checks in Spark do."""
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


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


def _fit_text_lengths(values: pa.Array, declared: DataType) -> pa.Array:
    """Cut spaces beyond the declared length, and pad CHAR with spaces, as Spark does."""
    if not has_limits(declared):
        return values
    kind, length = limit_of(declared)
    if length and (pc.max(pc.utf8_length(values)).as_py() or 0) <= length:
        return pc.utf8_rpad(values, length) if kind == "char" else values
    kept = values.to_pylist()
    fitted = [_fit(value, declared) for value in kept]
    return values if fitted == kept else pa.array(fitted, values.type)


def _keeps(value: Any, data_type: DataType, *, inside: bool = False) -> bool:  # noqa: ANN401
    """Whether one value, as Arrow gives it to Python, keeps the rules of its type."""
    kind, length = limit_of(data_type)
    if value is None or kind:
        return value is None or len(value) == length or (kind != "char" and len(value) < length)
    match data_type:
        case ArrayType(element, nulls):
            return all(_holds_item(item, element, nulls=nulls) for item in value)
        case MapType(key, held, nulls):
            return all(
                _holds_item(k, key, nulls=True) and _holds_item(v, held, nulls=nulls)
                for k, v in value
            )
        case StructType(fields):
            return all(
                _keeps(value[field.name], field.type, inside=inside)
                and not (inside and not field.nullable and value[field.name] is None)
                for field in fields
            )
        case _:
            return True


def _fit(value: Any, data_type: DataType) -> Any:  # noqa: ANN401 - as Arrow gives it to Python
    """Fit one value; keys that would become equal stay, and break the column's rule."""
    kind, length = limit_of(data_type)
    if value is None or not has_limits(data_type):
        return value
    match data_type:
        case ArrayType(element):
            return [_fit(item, element) for item in value]
        case MapType(key, held):
            pairs = [(_fit(k, key), _fit(v, held)) for k, v in value]
            return pairs if len({repr(k) for k, _ in pairs}) == len(pairs) else value
        case StructType(fields):
            return {f.name: _fit(value[f.name], f.type) for f in fields}
        case _:
            fits = len(value) <= length or len(value.rstrip(" ")) > length
            cut = value if fits else value[:length]
            return cut.ljust(length) if kind == "char" else cut


def _holds_item(value: Any, data_type: DataType, *, nulls: bool) -> bool:  # noqa: ANN401
    return (nulls or value is not None) and _keeps(value, data_type, inside=True)


def _empty(data: StructType) -> pa.RecordBatch:
    fields = [pa.field(column.name, target_type(column.type)) for column in data]
    arrays = [pa.nulls(0, field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
