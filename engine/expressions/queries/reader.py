"""Parsing of tokens to the clauses of a query, without the meaning of expressions.

The grammar accepts the constructs below and refuses all others by name: a query is parsed before it
is run, and only its tokens are passed on.
"""

from collections.abc import Callable

from engine.expressions.cursor import Cursor
from engine.expressions.lexer import Token, tokenize
from engine.expressions.literals import is_whole
from engine.expressions.operands import KEYWORDS
from engine.expressions.queries.from_clause import BEGINNINGS, FromReader
from engine.expressions.queries.syntax import (
    BodySyntax,
    CommonTable,
    ItemSyntax,
    OrderSyntax,
    QuerySyntax,
    SelectSyntax,
    SetSyntax,
    Tokens,
    ValuesSyntax,
    text_of,
)

MAX_NESTING = 16
MAX_ROWS = 10_000
_SET_OPERATORS = {"UNION": "union", "EXCEPT": "except", "MINUS": "except"}


def read_query(cursor: Cursor, depth: int = 0) -> QuerySyntax:
    """Parse the query ahead of a cursor, and move the cursor after it.

    Raises:
        ExpressionError: (or the cursor's own error) a syntax error.
    """
    reader = QueryReader(cursor.tokens, cursor.text)
    reader.error, reader.index, reader.depth = cursor.error, cursor.index, depth
    query = reader.query()
    cursor.index = reader.index
    return query


def read_common(cursor: Cursor) -> tuple[CommonTable, ...]:
    """Parse the common table expressions after WITH, and move the cursor after them.

    Raises:
        ExpressionError: (or the cursor's own error) a syntax error.
    """
    reader = QueryReader(cursor.tokens, cursor.text)
    reader.error, reader.index = cursor.error, cursor.index
    tables = reader.common()
    cursor.index = reader.index
    return tables


def take_expression_part(cursor: Cursor, start: int) -> str:
    """Skip one token, or a whole subquery, of the expression beginning at `start`.

    Return the word or symbol, "" for a subquery and for anything else.

    Raises:
        StatementError: a subquery does not parse, or (`ExpressionError`) an unlisted function is
            called.
    """
    reader = QueryReader(cursor.tokens, cursor.text)
    reader.error, reader.help, reader.index = cursor.error, cursor.help, cursor.index
    if reader.take_subquery(start):
        cursor.index = reader.index
        return ""
    cursor.index += 1
    return cursor.peek(-1)


def check_calls(text: str) -> None:
    """Refuse an expression that calls an unlisted function, subqueries included.

    Raises:
        ExpressionError: it does; with the position.
    """
    if "(" not in text:  # most literals in VALUES
        return
    cursor = Cursor(tokenize(text), text)
    while not cursor.at_end:
        take_expression_part(cursor, 0)


class QueryReader(FromReader):
    """One pass over the tokens of one query."""

    def query(self) -> QuerySyntax:
        """Parse [WITH …] SELECT … [UNION …] [ORDER BY …] [LIMIT …]."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.refuse(f"the query is nested deeper than {MAX_NESTING} levels")
        start = self.index
        common = self.common() if self.take("WITH") else ()
        body = self._union()
        order = self._order() if self.take("ORDER", "BY") else ()
        limit = None if not self.take("LIMIT") or self.take("ALL") else self._count()
        offset = self._count() if self.take("OFFSET") else 0
        self.depth -= 1
        text = text_of(tuple(self.tokens[start : self.index]))
        return QuerySyntax(common, body, order, limit, offset, text)

    def common(self) -> tuple[CommonTable, ...]:
        """Name [(columns)] AS (query), …."""
        if self.peek() == "RECURSIVE":
            self.refuse("a query cannot read itself")
        tables = []
        while True:
            name = self.alias_name()
            columns = self.names() if self.peek() == "(" else ()
            self.need("AS", "(")
            tables.append(CommonTable(name, columns, self.query()))
            self.need(")")
            if not self.take(","):
                return tuple(tables)

    def _union(self) -> BodySyntax:
        left = self._intersection()
        while (operator := _SET_OPERATORS.get(self.peek())) is not None:
            left = self._parse_set_operation(operator, left, self._intersection)
        return left

    def _intersection(self) -> BodySyntax:
        left = self._term()
        while self.peek() == "INTERSECT":
            left = self._parse_set_operation("intersect", left, self._term)
        return left

    def _parse_set_operation(
        self, operator: str, left: BodySyntax, read: Callable[[], BodySyntax]
    ) -> SetSyntax:
        self.combine()
        position = self.position
        self.index += 1
        every = self.take("ALL")
        if not every:
            self.take("DISTINCT")
        return SetSyntax(operator, every, left, read(), position)

    def _term(self) -> BodySyntax:
        position = self.position
        if self.take("("):
            query = self.query()
            self.need(")")
            return query
        if self.take("VALUES"):
            return self._values(position)
        self.need("SELECT")
        return self._select(position)

    def _values(self, position: int) -> ValuesSyntax:
        rows = [self._row()]
        while self.take(","):
            rows.append(self._row())
            if len(rows) > MAX_ROWS:
                self.refuse(f"VALUES takes at most {MAX_ROWS} rows")
        return ValuesSyntax(tuple(rows), position)

    def _row(self) -> tuple[Tokens, ...]:
        if not self.take("("):
            return (self.expression_tokens(),)
        row = self._list()
        self.need(")")
        return row

    def _select(self, position: int) -> SelectSyntax:
        distinct = self.take("DISTINCT")
        if not distinct:
            self.take("ALL")
        items = [self._item()]
        while self.take(","):
            items.append(self._item())
        source = self.source() if self.take("FROM") else None
        where = self.expression_tokens() if self.take("WHERE") else ()
        group_by = self._list() if self.take("GROUP", "BY") else ()
        having = self.expression_tokens() if self.take("HAVING") else ()
        qualify = self.expression_tokens() if self.take("QUALIFY") else ()
        return SelectSyntax(
            tuple(items), distinct, source, where, group_by, having, qualify, position
        )

    def _list(self) -> tuple[Tokens, ...]:
        expressions = [self.expression_tokens()]
        while self.take(","):
            expressions.append(self.expression_tokens())
        return tuple(expressions)

    def _item(self) -> ItemSyntax:
        start = self.index
        if self.take("*"):
            return ItemSyntax((), star=True, left_out=self._parse_except_names())
        if self.peek(1) == "." and self.peek(2) == "*":
            qualifier = self.alias_name()
            self.index += 2
            return ItemSyntax(
                (), star=True, qualifier=qualifier, left_out=self._parse_except_names()
            )
        tokens = self.expression_tokens()
        alias = _alias_at(tokens)
        if alias is None:
            return ItemSyntax(tokens)
        kept = tokens[:-2] if alias else tokens[:-1]
        last = tokens[-1]
        if not kept:
            self.index = start
            self.refuse("a column was expected")
        return ItemSyntax(kept, last.value if last.kind == "name" else last.text)

    def _parse_except_names(self) -> tuple[str, ...]:
        if self.peek() in {"EXCEPT", "EXCLUDE"} and self.peek(1) == "(":
            if self.peek(2) in BEGINNINGS:
                return ()
            self.index += 1
            return self.names()
        return ()

    def _order(self) -> tuple[OrderSyntax, ...]:
        return tuple(order_key(key) for key in self._list())

    def _count(self) -> int:
        token = self.token()
        if token is None or token.kind != "number" or not is_whole(token.value):
            self.refuse("a whole number was expected")
        if len(token.value) > 9:
            self.refuse("the number is too large")
        self.index += 1
        return int(token.value)


def order_key(tokens: Tokens) -> OrderSyntax:
    """Parse a key of ORDER BY: expression [ASC | DESC] [NULLS FIRST | LAST]."""
    words = [token.value if token.kind == "word" else "" for token in tokens]
    nulls: bool | None = None
    if words[-2:] in (["NULLS", "FIRST"], ["NULLS", "LAST"]):
        nulls = words[-1] == "FIRST"
        tokens, words = tokens[:-2], words[:-2]
    descending = words[-1:] == ["DESC"]
    if descending or words[-1:] == ["ASC"]:
        tokens = tokens[:-1]
    return OrderSyntax(tokens, descending, nulls)


def _alias_at(tokens: Tokens) -> bool | None:
    """Return whether the alias at the end of these tokens follows AS; None for no alias."""
    if len(tokens) < 2 or tokens[-1].kind not in {"word", "name"}:
        return None
    before, last = tokens[-2], tokens[-1]
    if before.kind == "word" and before.value == "AS":
        return True
    if last.kind == "word" and last.value in KEYWORDS | {"AS"}:
        return None
    interval = len(tokens) > 2 and tokens[-3].value == "INTERVAL" and tokens[-3].kind == "word"
    between = before.kind == "word" and before.value == "TO"  # INTERVAL '1-2' YEAR TO MONTH
    return False if _ends_a_value(before) and not interval and not between else None


def _ends_a_value(token: Token) -> bool:
    if token.kind == "symbol":
        return token.value in {")", "]"}
    return (
        token.kind != "word"
        or token.value in {"END", "NULL", "TRUE", "FALSE"}
        or (token.value not in KEYWORDS)
    )
