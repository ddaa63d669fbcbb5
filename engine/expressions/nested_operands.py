"""Lambdas and structs among the operands of an expression."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import Token
from engine.expressions.nested_calls import MAX_LAMBDAS, lambda_depth
from engine.expressions.nested_types import LAMBDAS, variables
from engine.expressions.scope import Scope
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Call, Column, Expression, Literal, Variable
from engine.schema.types import STRING, DataType


class NestedOperands(Cursor, ABC):
    """Parses the arguments of functions with lambdas, and of `struct`."""

    def __init__(self, tokens: list[Token], scope: Scope) -> None:
        super().__init__(tokens)
        self.scope = scope
        self._made = 0
        self._variables: list[dict[str, Variable]] = []

    @abstractmethod
    def expression(self) -> Expression:
        """Parse an expression of any operators."""

    @abstractmethod
    def _column(self) -> Expression:
        """Parse the column ahead."""

    def _parse_name(self) -> Expression:
        """Parse a variable of an enclosing lambda, or a column."""
        token = self.token()
        name = "" if token is None else token.value if token.kind == "name" else token.text
        for made in reversed(self._variables):
            if name.lower() in made:
                self.index += 1
                return made[name.lower()]
        return self._column()

    def field_name(self) -> str:
        """Parse the name after a dot, possibly a keyword.

        Raises:
            ExpressionError: something else follows.
        """
        token = self.token()
        if token is None or token.kind not in {"word", "name"}:
            self.refuse("the name of a field was expected")
        self.index += 1
        return token.value if token.kind == "name" else token.text

    def _struct(self, position: int) -> Expression:
        """Parse struct(a, b AS c): fields are named by columns, by AS, else col1, col2, …."""
        parts: list[Expression] = []
        while True:
            value = self.expression()
            name = f"col{len(parts) // 2 + 1}"
            if self.take("AS"):
                name = self.field_name()
            elif isinstance(value, Column):
                name = value.path[-1].rpartition(".")[2] if len(value.path) == 1 else value.path[-1]
            elif isinstance(value, Call) and value.function == "field":
                last = value.arguments[1]
                name = str(last.value) if isinstance(last, Literal) else name
            parts += [Literal(name, STRING), value]
            if not self.take(","):
                self.need(")")
                return build.call("named_struct", parts, position)

    def _parse_lambda_call(self, name: str, position: int) -> Expression:
        """Parse a call with values first, then lambdas over their elements."""
        (first, kind), counts = LAMBDAS[name]
        arguments: list[Expression] = []
        while len(arguments) < first:
            arguments.append(self.expression())
            self.need(",")
        types = [argument.type for argument in arguments]
        arguments.append(self._lambda(name, lambda count: variables(kind, types, count), counts))
        if name == "aggregate" and self.take(","):
            arguments.append(self._lambda(name, lambda _: [types[1]], (1,)))
        self.need(")")
        call = build.call(name, arguments, position)
        if lambda_depth(call) > MAX_LAMBDAS:
            what = f"Lambdas stand in one another more than {MAX_LAMBDAS} deep."
            raise ExpressionError(what, "Compute the inner ones first.", position=position)
        return call

    def _lambda(
        self, name: str, types_of: Callable[[int], list[DataType] | None], counts: tuple[int, ...]
    ) -> Expression:
        position = self.position
        bracket = self.take("(")
        names = [self.field_name()]
        while bracket and self.take(","):
            names.append(self.field_name())
        if bracket:
            self.need(")")
        self.need("->")
        types = types_of(len(names))
        if (
            types is None
            or len(names) not in counts
            or len({n.lower() for n in names}) < len(names)
        ):
            takes = " or ".join(map(str, counts))
            what = f"The lambda of {name} takes {takes} names, over an array or map of its kind."
            raise ExpressionError(what, "Check what stands before it.", position=position)
        made = [Variable(self._fresh(), data_type) for data_type in types]
        self._variables.append(
            {given.lower(): variable for given, variable in zip(names, made, strict=True)}
        )
        body = self.expression()
        self._variables.pop()
        if has_subquery(body):
            what = f"A subquery stands in a lambda of {name}."
            raise ExpressionError(what, "Join its table instead.", position=position)
        return Call("lambda", (body, *made), body.type)

    def _fresh(self) -> str:
        """Return a name unused by any column, for a lambda's variable."""
        taken = {
            column.lower() for relation in self.scope.relations for column in relation.schema.names
        }
        while (name := f"v{self._made}") in taken:
            self._made += 1
        self._made += 1
        return name
