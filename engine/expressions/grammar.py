"""The grammar of expressions: tokens to a tree, by precedence, and nothing that is not named.

Precedence is Spark's: OR, AND, NOT, predicates (IS, IN, BETWEEN, LIKE), comparisons,
addition and `||`, multiplication, unary minus.
"""

from collections.abc import Callable

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.cursor import Cursor
from engine.expressions.functions import find_callable
from engine.expressions.lexer import Token
from engine.expressions.literals import interval_literal, is_whole, number_literal, typed_literal
from engine.expressions.scope import Scope
from engine.expressions.tree import FALSE, TRUE, VOID, Expression, Literal
from engine.expressions.types import NAMED_TYPES
from engine.schema.types import BINARY, STRING, DataType, DecimalType

MAX_DEPTH = 64
_OR, _AND, _PREDICATE, _COMPARISON, _SUM, _PRODUCT = 1, 2, 4, 5, 6, 7
_LEVELS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("+", "-", "||"), _SUM),
    **dict.fromkeys(("*", "/", "%", "DIV"), _PRODUCT),
}
_OPERATORS = {"==": "=", "!=": "<>", "||": "concat"}
_PREDICATES = frozenset({"IS", "IN", "BETWEEN", "LIKE", "ILIKE", "NOT"})
_CONSTANTS: dict[str, Literal] = {"TRUE": TRUE, "FALSE": FALSE, "NULL": Literal(None, VOID)}
_TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
KEYWORDS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IS",
        "IN",
        "BETWEEN",
        "LIKE",
        "ILIKE",
        "ESCAPE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "NULL",
        "TRUE",
        "FALSE",
        "DIV",
        "DISTINCT",
        "FROM",
        "SELECT",
        "WHERE",
        "EXISTS",
        "INTERVAL",
        "CAST",
        "TRY_CAST",
        "RLIKE",
        "REGEXP",
        "ANY",
        "SOME",
        "ALL",
        "OVER",
        "FILTER",
        "WITHIN",
        "COLLATE",
        "AT",
        "LATERAL",
        "TRANSFORM",
        "USING",
    ]
)
"""Words that are no column unless they stand in backticks."""

Nested = Callable[["Grammar", str], Expression]


class Grammar(Cursor):
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

    # --- expressions ---

    def expression(self, level: int = _OR) -> Expression:
        """An expression of operators that bind at least as tightly as `level`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            what = f"The expression is nested deeper than {MAX_DEPTH} levels."
            raise ExpressionError(what, "Split it.", position=self.position)
        left = (
            self._not(level)
            if level <= _PREDICATE and self.peek() in {"NOT", "!"}
            else self._unary()
        )
        while (found := self._operator(level)) is not None:
            left = self._predicate(left) if found in _PREDICATES else self._binary(left, found)
        self._depth -= 1
        return left

    def _not(self, level: int) -> Expression:
        position = self.position
        self.index += 1
        return build.call("not", (self.expression(max(level, 3)),), position)

    def _operator(self, level: int) -> str | None:
        ahead = self.peek()
        if ahead in _PREDICATES:
            return ahead if level <= _PREDICATE else None
        return ahead if _LEVELS.get(ahead, 0) >= level else None

    def _binary(self, left: Expression, operator: str) -> Expression:
        position, level = self.position, _LEVELS[operator]
        self.index += 1
        right = self.expression(level + 1)
        return build.call(_OPERATORS.get(operator, operator.lower()), (left, right), position)

    def _predicate(self, left: Expression) -> Expression:
        position = self.position
        if self.take("IS"):
            return self._is(left, position)
        negated = self.take("NOT")
        found = self._in_like_between(left, position)
        return build.call("not", (found,), position) if negated else found

    def _in_like_between(self, left: Expression, position: int) -> Expression:
        if self.take("IN"):
            return self._in(left, position)
        if self.take("BETWEEN"):
            low = self.expression(_COMPARISON)
            self.need("AND")
            high = self.expression(_COMPARISON)
            bounds = (
                build.call(">=", (left, low), position),
                build.call("<=", (left, high), position),
            )
            return build.call("and", bounds, position)
        name = self.peek()
        if not (self.take("LIKE") or self.take("ILIKE")):
            self.refuse()
        return self._like(name.lower(), left, position)

    def _like(self, name: str, left: Expression, position: int) -> Expression:
        arguments = [left, self.expression(_COMPARISON)]
        if self.take("ESCAPE"):
            arguments.append(self._escape())
        return build.call(name, arguments, position)

    def _escape(self) -> Expression:
        token = self.token(0)
        if token is None or token.kind != "string" or len(token.value) != 1:
            self.refuse("ESCAPE takes one character")
        self.index += 1
        return Literal(token.value, STRING)

    def _is(self, left: Expression, position: int) -> Expression:
        negated = self.take("NOT")
        if self.take("NULL"):
            return build.call("isnotnull" if negated else "isnull", (left,), position)
        if self.peek() in {"TRUE", "FALSE"}:
            found = build.call("<=>", (left, _CONSTANTS[self.peek()]), position)
            self.index += 1
        elif self.take("DISTINCT", "FROM"):
            found, negated = (
                build.call("<=>", (left, self.expression(_COMPARISON)), position),
                not negated,
            )
        else:
            self.refuse("IS takes NULL, TRUE, FALSE or DISTINCT FROM")
        return build.call("not", (found,), position) if negated else found

    def _in(self, left: Expression, position: int) -> Expression:
        self.need("(")
        if self.peek() in {"SELECT", "WITH"}:
            return build.call("in", (left, self._subquery("in")), position)
        return build.call("in", (left, *self._list()), position)

    def _subquery(self, kind: str) -> Expression:
        if self.nested is None:
            what = "A subquery is not allowed here."
            remedy = "Use a MERGE, or write the values out."
            raise ExpressionError(what, remedy, position=self.position)
        found = self.nested(self, kind)
        self.need(")")
        return found

    def _list(self) -> list[Expression]:
        """Expressions up to the closing bracket, which is taken."""
        if self.take(")"):
            return []
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        self.need(")")
        return found

    def _unary(self) -> Expression:
        position, token = self.position, self.token(1)
        if self.take("-"):
            if token and token.kind == "number":
                return self._postfix(self._number(negative=True))
            self._enter()
            found = build.call("negative", (self._unary(),), position)
            self._depth -= 1
            return found
        return self._postfix(self._primary())

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            what = f"The expression is nested deeper than {MAX_DEPTH} levels."
            raise ExpressionError(what, "Split it.", position=self.position)

    def _postfix(self, found: Expression) -> Expression:
        while True:
            position = self.position
            if self.take("["):
                found = build.call("get", (found, self.expression()), position)
                self.need("]")
            elif self.take("::"):
                found = build.cast(found, self.type(), lenient=False, position=position)
            else:
                return found

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
        found = number_literal(token.value, negative=negative) if token else None
        if found is None:
            self.refuse("this is not a number that fits a type")
        self.index += 1
        return found

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
        found = self.expression()
        self.need(")")
        return found

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
        known = _CONSTANTS.get(token.value) or self.moments.get(token.value.lower())
        if known is None or self.peek(1) == ".":
            return self._column()
        self.index += 1
        return known

    def _typed(self, kind: Token, text: Token) -> Literal:
        found = typed_literal(kind.value, text.value)
        if found is None:
            self.refuse(f"{text.text[:60]} is not a {kind.value}")
        self.index += 2
        return found

    def _column(self) -> Expression:
        position, path = self.position, [self.name()]
        while self.peek() == ".":
            self.index += 1
            path.append(self.name())
        if self.peek() == "(":
            what = f"The function {'.'.join(path)[:100]} is not allowed: names are plain here."
            raise ExpressionError(what, "Use one of the documented functions.", position=position)
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
        known = find_callable(name)
        if known is None:
            what = f"The function {token.text[:100]} at {token.position} is not allowed in an expression."
            raise ExpressionError(
                what, "Use one of the documented functions.", position=token.position
            )
        return build.call(known.name, self._list(), token.position)

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
        found = None
        if amount and unit and amount.kind in {"number", "string"}:
            found = interval_literal(sign + amount.value, unit.value)
        if found is None:
            self.refuse("write an interval as INTERVAL 7 DAYS")
        self.index += 2
        return found

    def _exists(self) -> Expression:
        self.need("EXISTS")
        self.need("(")
        return self._subquery("exists")
