"""A table's rules for its rows: one list, which Arrow and Spark evaluate.

A row is first completed, then checked. Missing columns take their defaults, texts are fitted to
their declared lengths, and missing generated columns are computed. The checks follow in this order:
NOT NULL, CHECK constraints, declared text lengths and values inside collections, column invariants,
generated columns with given values.

Rules are SQL text in the table's log, which is no more trusted than a person's: they go through the
engine's own parser, and a table with a rule that the parser refuses is not written.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from engine.actions.table import Metadata
from engine.errors import ExpressionError, RequestError, UnsupportedFeatureError
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.traits import columns_of
from engine.expressions.tree import TRUE, VOID, Call, Column, Expression, Literal
from engine.protocol.properties import constraint_name
from engine.schema.text_lengths import (
    has_limits,
    limit_of,
    read_declared_type,
    render_declared_type,
)
from engine.schema.types import (
    BOOLEAN,
    INTEGER,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

GENERATED = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
INVARIANT = "delta.invariants"
IDENTITY = "delta.identity.start"


@dataclass(frozen=True, slots=True)
class RowRule:
    """A check of every row.

    Attributes:
        name: what a row breaks, for people.
        columns: shown of a row that breaks it.
        condition: what must hold; null is no violation. Without one, the rule is for one column.
        declared: its declared type: what every value inside must be.
        computed: its value, before it is fitted to the declared type.
    """

    name: str
    columns: tuple[str, ...]
    condition: Expression | None = None
    declared: DataType = VOID
    computed: Expression | None = None


@dataclass(frozen=True, slots=True)
class RuleParser:
    """Parses the rules of one table.

    Attributes:
        table: its location, for messages.
        schema: its columns.
        by_session: as in `parse_condition`.
    """

    table: str
    schema: StructType
    by_session: bool = False

    def list_rules(self, metadata: Metadata, given: Iterable[str]) -> list[RowRule]:
        """List the checks of a row, in order; `given` are the columns that are not computed.

        Raises:
            UnsupportedFeatureError: this engine cannot check a rule.
            InvalidSchemaError: a column's CHAR or VARCHAR is not a type.
        """
        have = frozenset(given)
        generated = (f for f in self.schema if GENERATED in f.metadata and f.name in have)
        return [
            *_iter_not_null(self.schema),
            *self._iter_constraints(metadata),
            *filter(None, map(_value_rule, self.schema)),
            *self._iter_invariants(),
            *map(self._generation_rule, generated),
        ]

    def parse_default(self, field: StructField, now_ms: int) -> Expression | None:
        """Return the value of a missing column that is not generated; None is null.

        Raises:
            UnsupportedFeatureError: the engine does not support the expression.
            RequestError: only the table's own engine may fill it: it is an identity column.
        """
        if IDENTITY in field.metadata:
            msg = f"{field.name} is an identity column, whose values this write cannot assign."
            raise RequestError(
                msg,
                "Write with the engine that created the table, or include values for the column.",
                field="source",
            )
        text = field.metadata.get(DEFAULT)
        if text is None:
            return None
        value = self._parse(
            str(text), f"default of {field.name}", parse_expression, StructType(), now_ms
        )
        return _cast(value, field.type)

    def parse_generated(self, field: StructField) -> Expression:
        """Return the value of a generated column.

        Raises:
            UnsupportedFeatureError: the engine does not support the expression.
        """
        text = str(field.metadata[GENERATED])
        value = self._parse(text, f"generated column {field.name}", parse_expression)
        return _cast(value, field.type)

    def _iter_constraints(self, metadata: Metadata) -> Iterator[RowRule]:
        for key, text in metadata.configuration.items():
            if (name := constraint_name(key)) is not None:
                condition = self._parse(text, f"constraint {name}")
                yield _must_be_true(f"the constraint {name} ({text})", condition)

    def _iter_invariants(self) -> Iterator[RowRule]:
        for path, field, _ in iter_fields(self.schema):
            if text := _invariant(field):
                name = ".".join(path)
                condition = self._parse(text, f"invariant of {name}")
                yield _must_be_true(f"the invariant of {name} ({text})", condition)

    def _generation_rule(self, field: StructField) -> RowRule:
        name = f"the generation of {field.name} ({field.metadata[GENERATED]})"
        return RowRule(
            name, (field.name,), None, read_declared_type(field), self.parse_generated(field)
        )

    def _parse(
        self,
        text: str,
        what: str,
        parse: Callable[..., Expression] = parse_condition,
        schema: StructType | None = None,
        now_ms: int | None = None,
    ) -> Expression:
        columns = self.schema if schema is None else schema
        try:
            return parse(text, columns, now_ms=now_ms, by_session=self.by_session)
        except ExpressionError as error:
            refused = [f"{what} ({text})"[:300]]
            raise UnsupportedFeatureError(self.table, refused, "write") from error


def text_columns(schema: StructType) -> list[tuple[str, DataType]]:
    """List the columns with texts of limited length anywhere inside, and their declared types."""
    declared = [(field.name, read_declared_type(field)) for field in schema]
    return [(name, data_type) for name, data_type in declared if has_limits(data_type)]


def iter_fields(
    schema: StructType, prefix: tuple[str, ...] = (), *, required: bool = True
) -> Iterator[tuple[tuple[str, ...], StructField, bool]]:
    """Yield columns and fields of structs with their paths.

    The third value says whether every struct around the field is NOT NULL.
    """
    for field in schema:
        path = (*prefix, field.name)
        yield path, field, required
        if isinstance(field.type, StructType):
            yield from iter_fields(field.type, path, required=required and not field.nullable)


def _iter_not_null(schema: StructType) -> Iterator[RowRule]:
    """Yield NOT NULL rules at any depth of structs; a null struct may have null fields."""
    types: dict[tuple[str, ...], DataType] = {}
    for path, field, required in iter_fields(schema):
        types[path] = field.type
        if field.nullable:
            continue
        condition = Call("isnotnull", (Column(path, field.type),), BOOLEAN)
        if not required:
            parent = Call("isnull", (Column(path[:-1], types[path[:-1]]),), BOOLEAN)
            condition = Call("or", (parent, condition), BOOLEAN)
        yield RowRule(f"NOT NULL of {'.'.join(path)}", path[:1], condition)


def _value_rule(field: StructField) -> RowRule | None:
    """Return the rule for the length of a text, or for the values inside a column."""
    declared = read_declared_type(field)
    kind, length = limit_of(declared)
    if length:
        characters = Call("length", (Column((field.name,), field.type),), INTEGER)
        fits = Call("<=", (characters, Literal(length, INTEGER)), BOOLEAN)
        return RowRule(f"the length of {field.name} ({kind}({length}))", (field.name,), fits)
    if is_bounded(declared):
        name = f"the type of {field.name} ({_type_shown(declared)})"
        return RowRule(name, (field.name,), declared=declared)
    return None


def is_bounded(data_type: DataType) -> bool:
    """Whether values of the type must be checked inside; a struct's own fields do not count."""
    match data_type:
        case ArrayType(element, nulls):
            return not nulls or _is_bounded_inside(element)
        case MapType(key, value, nulls):
            return not nulls or _is_bounded_inside(key) or _is_bounded_inside(value)
        case StructType(fields):
            return any(is_bounded(field.type) or has_limits(field.type) for field in fields)
        case _:
            return False


def _is_bounded_inside(data_type: DataType) -> bool:
    required = isinstance(data_type, StructType) and any(
        not field.nullable or _is_bounded_inside(field.type) for field in data_type
    )
    return required or has_limits(data_type) or is_bounded(data_type)


def _type_shown(data_type: DataType) -> str:
    """Render the type for people: `array<varchar(3) not null>`."""
    match data_type:
        case ArrayType(element, nulls):
            return f"array<{_type_shown(element)}{'' if nulls else ' not null'}>"
        case MapType(key, value, nulls):
            return f"map<{_type_shown(key)},{_type_shown(value)}{'' if nulls else ' not null'}>"
        case StructType(fields):
            return f"struct<{','.join(map(_field_shown, fields))}>"
        case _:
            return render_declared_type(data_type)


def _field_shown(field: StructField) -> str:
    return f"{field.name}:{_type_shown(field.type)}{'' if field.nullable else ' not null'}"


def _must_be_true(name: str, condition: Expression) -> RowRule:
    """Null is not enough (protocol: CHECK Constraints, Column Invariants)."""
    columns = tuple(sorted({path[0] for path in columns_of(condition)}))
    return RowRule(name, columns, Call("<=>", (condition, TRUE), BOOLEAN))


def _invariant(field: StructField) -> str:
    text = field.metadata.get(INVARIANT)
    try:
        return str(json.loads(text)["expression"]["expression"]) if text else ""
    except (ValueError, KeyError, TypeError):
        return str(text)


def _cast(value: Expression, data_type: DataType) -> Expression:
    return value if value.type == data_type else Call("cast", (value,), data_type)
