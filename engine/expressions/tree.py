"""The tree of an expression: one form for data skipping, conflicts, Arrow and Spark.

Nodes are frozen values. Columns carry the schema's own spelling, calls name a function of the
allow-list, and from text nothing else comes to be: what has such a tree is safe to render and to run.
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

    `relation` is empty where there is one relation only, else the side: "target" or "source". The
    texts of a CHAR column all have `char_length` characters; 0 of other columns.
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
    """What a lambda calls an element: `x` in `x -> x + 1`, under a name that no column has.

    The lambda is the call `lambda` of its body and its variables, of the body's type.
    """

    name: str
    type: DataType


class SubqueryParser(Protocol):
    """What a subquery asks of its query."""

    def expressions(self) -> "tuple[Expression, ...]":
        """Every expression in it."""
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
    """What Spark alone can evaluate: Spark computes it into a column of that `name`.

    Trusted code alone makes one, from a `Column` of its own. No text from people becomes one, and
    no request carries one. `text` shows it to people, `sides` are the relations whose columns it
    reads, and `value` is Spark's own, which nothing but `engine.spark` looks at.
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
    """The nodes directly below."""
    match expression:
        case Call(arguments=arguments):
            return arguments
        case Subquery(query=query):
            return () if query is None else query.expressions()
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node, parents before what they hold."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))
