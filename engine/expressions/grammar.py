"""The grammar of expressions: tokens to a tree by precedence; unlisted constructs are refused.

Precedence is Spark's: OR, AND, NOT, predicates (IS, IN, BETWEEN, LIKE), comparisons,
addition and `||`, multiplication, unary minus.
"""

from engine.expressions import build
from engine.expressions.operands import Operands
from engine.expressions.tree import FALSE, TRUE, Expression, Literal
from engine.schema.types import STRING

_OR, _AND, _PREDICATE, _COMPARISON, _SUM, _PRODUCT = 1, 2, 4, 5, 6, 7
_LEVELS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("+", "-", "||"), _SUM),
    **dict.fromkeys(("*", "/", "%", "DIV"), _PRODUCT),
}
_OPERATORS = {"==": "=", "!=": "<>", "||": "concat"}
_QUANTIFIERS = frozenset({"ANY", "SOME", "ALL"})
_PREDICATES = frozenset({"IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "NOT"})


class Grammar(Operands):
    """One pass over the tokens of one expression."""

    def expression(self, level: int = _OR) -> Expression:
        """Parse an expression of operators binding at least as tightly as `level`."""
        self._enter()
        left = (
            self._not(level)
            if level <= _PREDICATE and self.peek() in {"NOT", "!"}
            else self._unary()
        )
        while (operator := self._operator(level)) is not None:
            left = (
                self._predicate(left) if operator in _PREDICATES else self._binary(left, operator)
            )
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
        if (
            self.peek() in {"LIKE", "ILIKE"}
            and self.peek(1) in _QUANTIFIERS
            and self.peek(2) == "("
        ):
            return self._parse_like_list(left, position, negated=negated)
        test = self._parse_predicate(left, position)
        return build.call("not", (test,), position) if negated else test

    def _parse_like_list(self, left: Expression, position: int, *, negated: bool) -> Expression:
        """Parse LIKE ANY | ALL (pattern, …); NOT applies to each pattern, as in Spark."""
        name, quantifier = self.peek().lower(), self.peek(1)
        self.index += 3
        tests = [build.call(name, (left, pattern), position) for pattern in self._list()]
        if not tests:
            self.refuse("a pattern was expected")
        if negated:
            tests = [build.call("not", (test,), position) for test in tests]
        if len(tests) == 1:
            return tests[0]
        return build.call("and" if quantifier == "ALL" else "or", tests, position)

    def _parse_predicate(self, left: Expression, position: int) -> Expression:
        if self.take("IN"):
            return self._parse_in(left, position)
        if self.take("BETWEEN"):
            low = self.expression(_COMPARISON)
            self.need("AND")
            high = self.expression(_COMPARISON)
            bounds = (
                build.call(">=", (left, low), position),
                build.call("<=", (left, high), position),
            )
            return build.call("and", bounds, position)
        if self.take("RLIKE") or self.take("REGEXP"):
            return build.call("regexp_like", (left, self.expression(_COMPARISON)), position)
        name = self.peek()
        if not (self.take("LIKE") or self.take("ILIKE")):
            self.refuse()
        return self._parse_like(name.lower(), left, position)

    def _parse_like(self, name: str, left: Expression, position: int) -> Expression:
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
            test = build.call("<=>", (left, TRUE if self.peek() == "TRUE" else FALSE), position)
            self.index += 1
        elif self.take("UNKNOWN"):
            test = build.call("isnull", (build.call("not", (left,), position),), position)
        elif self.take("DISTINCT", "FROM"):
            test, negated = (
                build.call("<=>", (left, self.expression(_COMPARISON)), position),
                not negated,
            )
        else:
            self.refuse("IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return build.call("not", (test,), position) if negated else test

    def _parse_in(self, left: Expression, position: int) -> Expression:
        self.need("(")
        if self.peek() in {"SELECT", "WITH"}:
            return build.call("in", (left, self._subquery("in")), position)
        return build.call("in", (left, *self._list()), position)

    def _unary(self) -> Expression:
        position, token = self.position, self.token(1)
        if self.take("-"):
            if token and token.kind == "number":
                return self._postfix(self._number(negative=True))
            self._enter()
            operand = build.call("negative", (self._unary(),), position)
            self._depth -= 1
            return operand
        if self.take("+"):
            self._enter()
            operand = self._unary()
            self._depth -= 1
            build.call("negative", (operand,), position)  # it takes the same operands as +
            return operand
        return self._postfix(self._primary())
