"""The tree of an expression: one form for data skipping, conflicts, Arrow and Spark.

Nodes are frozen values. Columns have the schema's own spelling, calls name a function of the
allow-list, and parsed text contains nothing else: every such tree is safe to render and to run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol, TypeAlias

from engine.schema.types import BOOLEAN, DataType, PrimitiveType

VOID = PrimitiveType("void")
INTERVAL = PrimitiveType("interval")


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of time in one unit: MONTH, DAY or MICROSECOND."""

    amount: int
    unit: str


Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | Interval | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside a struct column, by its path in the schema.

    `relation` is empty for a single relation, else the side: "target" or "source". The
    texts of a CHAR column all have `char_length` characters; 0 for other columns.
    """

    path: tuple[str, ...]
    type: DataType
    relation: str = ""
    char_length: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Timestamps are aware datetimes in UTC, `timestamp_ntz` naive ones."""

    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator of the allow-list over arguments; `cast` casts to `type`.

    `and`, `or` and `in` take any number of arguments; `case` takes condition and value in turn,
    and the ELSE value where their number is odd.
    """

    function: str
    arguments: "tuple[Expression, ...]"
    type: DataType


@dataclass(frozen=True, slots=True)
class Variable:
    """A lambda's variable: `x` in `x -> x + 1`, under a name unused by any column.

    The lambda is the call `lambda` of its body and its variables, with the body's type.
    """

    name: str
    type: DataType


class SubqueryParser(Protocol):
    """The interface of a subquery's query."""

    def expressions(self) -> "tuple[Expression, ...]":
        """Return every expression of the query."""
        ...


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query as a value (`kind` "scalar"), or as the operand of IN or EXISTS ("in", "exists").

    `text` is the query as written, `tables` are the tables it names. `query` is None until the
    tables' schemas are known; then the type of a scalar or IN is void.
    """

    kind: str
    text: str
    tables: tuple[str, ...]
    type: DataType
    query: SubqueryParser | None = None


@dataclass(frozen=True, slots=True)
class SparkExpression:
    """An expression only Spark can evaluate, into a column of this `name`.

    Only trusted code creates one, from its own `Column`. No text from people becomes one, and no
    request contains one. `text` is for display, `sides` are the relations whose columns it reads,
    and `value` is Spark's own, used only by `engine.spark`.
    """

    name: str
    text: str
    type: DataType
    sides: frozenset[str] = frozenset({""})
    is_deterministic: bool = True
    value: object = field(default=None, compare=False, repr=False)


Expression: TypeAlias = Column | Literal | Call | Variable | Subquery | SparkExpression

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the nodes directly below."""
    match expression:
        case Call(arguments=arguments):
            return arguments
        case Subquery(query=query):
            return () if query is None else query.expressions()
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield every node, parents before children."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))
