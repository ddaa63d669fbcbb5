"""What stands between operators: columns, literals, function calls, CASE, CAST and brackets."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.cursor import Cursor
from engine.expressions.functions import find_callable, remedy_for
from engine.expressions.lexer import Token
from engine.expressions.literals import interval_literal, is_whole, number_literal, typed_literal
from engine.expressions.scope import Scope
from engine.expressions.tree import FALSE, TRUE, VOID, Expression, Literal
from engine.expressions.types import NAMED_TYPES
from engine.schema.types import BINARY, STRING, DataType, DecimalType

MAX_DEPTH = 64
_CONSTANTS: dict[str, Literal] = {"TRUE": TRUE, "FALSE": FALSE, "NULL": Literal(None, VOID)}
_TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_LOGIC = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE")
_VALUES = ("CASE", "WHEN", "THEN", "ELSE", "END", "NULL", "TRUE", "FALSE", "INTERVAL", "DIV")
_CALLS = ("CAST", "TRY_CAST", "OVER", "FILTER", "WITHIN", "COLLATE", "AT", "TRANSFORM", "USING")
_SELECT = ("DISTINCT", "FROM", "SELECT", "WHERE", "EXISTS", "ANY", "SOME", "ALL", "LATERAL")
KEYWORDS = frozenset({*_LOGIC, *_VALUES, *_CALLS, *_SELECT})
"""Words that are no column unless they stand in backticks."""

Nested = Callable[["Operands", str], Expression]


class Operands(Cursor, ABC):
    """One pass over the tokens of one expression.

    `nested` parses a subquery whose SELECT is next; without it there are none.
    """

    def __init__(
        self,
        tokens: list[Token],
        scope: Scope,
        moments: dict[str, Literal],
        nested: Nested | None = None,
    ) -> None:
        super().__init__(tokens)
        self.scope, self.moments, self.nested = scope, moments, nested
        self._depth = 0

    @abstractmethod
    def expression(self) -> Expression:
        """An expression of any operators."""

    def _subquery(self, kind: str) -> Expression:
        if self.nested is None:
            what = "A subquery is not allowed here."
            remedy = "Use a MERGE, or write the values out."
            raise ExpressionError(what, remedy, position=self.position)
        expression = self.nested(self, kind)
        self.need(")")
        return expression

    def _list(self) -> list[Expression]:
        """Expressions up to the closing bracket, which is taken."""
        if self.take(")"):
            return []
        items = [self.expression()]
        while self.take(","):
            items.append(self.expression())
        self.need(")")
        return items

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            what = f"The expression is nested deeper than {MAX_DEPTH} levels."
            raise ExpressionError(what, "Split it.", position=self.position)

    def _postfix(self, operand: Expression) -> Expression:
        while True:
            position = self.position
            if self.take("["):
                operand = build.call("get", (operand, self.expression()), position)
                self.need("]")
            elif self.take("::"):
                operand = build.cast(operand, self.type(), lenient=False, position=position)
            else:
                return operand

    def _primary(self) -> Expression:
        token = self.token(0)
        if token is None:
            self.refuse("a value was expected")
        if token.kind == "word":
            return self._word(token)
        if token.kind == "hex":
            return self._hex(token)
        if token.kind == "string":
            return Literal(self.string(), STRING)
        if token.kind == "number":
            return self._number(negative=False)
        return self._column() if token.kind == "name" else self._bracket()

    def _number(self, *, negative: bool) -> Literal:
        token = self.token(0)
        literal = number_literal(token.value, negative=negative) if token else None
        if literal is None:
            self.refuse("this is not a number that fits a type")
        self.index += 1
        return literal

    def _hex(self, token: Token) -> Literal:
        try:
            value = bytes.fromhex(token.value.zfill(len(token.value) + len(token.value) % 2))
        except ValueError:
            self.refuse("this is not hexadecimal")
        self.index += 1
        return Literal(value, BINARY)

    def _bracket(self) -> Expression:
        if not self.take("("):
            self.refuse()
        if self.peek() in {"SELECT", "WITH"}:
            return self._subquery("scalar")
        expression = self.expression()
        self.need(")")
        return expression

    def _word(self, token: Token) -> Expression:
        after = self.token(1)
        if token.value in _TYPED and after and after.kind == "string":
            return self._typed(token, after)
        special = {
            "CASE": self._case,
            "CAST": self._cast,
            "TRY_CAST": self._cast,
            "INTERVAL": self._interval,
            "EXISTS": self._exists,
        }.get(token.value)
        if special:
            return special()
        if self.peek(1) == "(":
            return self._function(token)
        constant = _CONSTANTS.get(token.value) or self.moments.get(token.value.lower())
        if constant is None or self.peek(1) == ".":
            return self._column()
        self.index += 1
        return constant

    def _typed(self, kind: Token, text: Token) -> Literal:
        literal = typed_literal(kind.value, text.value)
        if literal is None:
            self.refuse(f"{text.text[:60]} is not a {kind.value}")
        self.index += 2
        return literal

    def _column(self) -> Expression:
        position, path = self.position, [self.name()]
        while self.peek() == ".":
            self.index += 1
            path.append(self.name())
        if self.peek() == "(":
            what = f"The function {'.'.join(path)[:100]} is not allowed: names are plain here."
            raise ExpressionError(what, remedy_for(path[-1]), position=position)
        return self.scope.resolve(path, position)

    def name(self) -> str:
        """A column name, in backticks or plain.

        Raises:
            ExpressionError: a keyword, or no name.
        """
        token = self.token(0)
        if token is None or token.kind not in {"word", "name"}:
            self.refuse("a column was expected")
        if token.kind == "word" and token.value in KEYWORDS:
            self.refuse("a column of that name needs backticks")
        self.index += 1
        return token.value if token.kind == "name" else token.text

    def _function(self, token: Token) -> Expression:
        name = token.value.lower()
        self.index += 2
        if name in self.moments and self.take(")"):
            return self.moments[name]
        function = find_callable(name)
        if function is None:
            what = f"The function {token.text[:100]} at {token.position} is not allowed in an expression."
            raise ExpressionError(what, remedy_for(name), position=token.position)
        return build.call(function.name, self._list(), token.position)

    def _case(self) -> Expression:
        position = self.position
        self.need("CASE")
        operand = None if self.peek() == "WHEN" else self.expression()
        arguments: list[Expression] = []
        while self.take("WHEN"):
            condition = self.expression()
            arguments.append(
                condition if operand is None else build.call("=", (operand, condition), position)
            )
            self.need("THEN")
            arguments.append(self.expression())
        if not arguments:
            self.refuse("WHEN was expected")
        if self.take("ELSE"):
            arguments.append(self.expression())
        self.need("END")
        return build.call("case", arguments, position)

    def _cast(self) -> Expression:
        position, lenient = self.position, self.peek() == "TRY_CAST"
        self.index += 1
        self.need("(")
        operand = self.expression()
        if not self.take("AS"):
            self.refuse("AS was expected")
        target = self.type()
        self.need(")")
        return build.cast(operand, target, lenient=lenient, position=position)

    def type(self) -> DataType:
        """An atomic type by its SQL name.

        Raises:
            ExpressionError: any other.
        """
        name = self.peek()
        self.index += 1
        if name in NAMED_TYPES:
            return NAMED_TYPES[name]
        if name not in {"DECIMAL", "DEC", "NUMERIC"}:
            self.index -= 1
            self.refuse("this is not a type to cast to")
        return self._decimal_type()

    def _decimal_type(self) -> DecimalType:
        precision, scale = 10, 0
        if self.take("("):
            precision = self._digits()
            scale = self._digits() if self.take(",") else 0
            self.need(")")
        if not 0 <= scale <= precision <= 38 or precision == 0:
            self.refuse("a decimal has 1 to 38 digits")
        return DecimalType(precision, scale)

    def _digits(self) -> int:
        token = self.token(0)
        if token is None or not is_whole(token.value) or len(token.value) > 3:
            self.refuse("a number of digits was expected")
        self.index += 1
        return int(token.value)

    def _interval(self) -> Expression:
        self.need("INTERVAL")
        sign = "-" if self.take("-") else ""
        amount, unit = self.token(0), self.token(1)
        interval = None
        if amount and unit and amount.kind in {"number", "string"}:
            interval = interval_literal(sign + amount.value, unit.value)
        if interval is None:
            self.refuse("write an interval as INTERVAL 7 DAYS")
        self.index += 2
        return interval

    def _exists(self) -> Expression:
        self.need("EXISTS")
        self.need("(")
        return self._subquery("exists")
