"""Binding of a SELECT's text to a plan: the only entry for a person's query."""

from dataclasses import replace
from itertools import pairwise

from engine.errors import ExpressionError
from engine.expressions.cursor import Cursor, note_part
from engine.expressions.lexer import Token, tokenize
from engine.expressions.parse import MAX_CHARACTERS, MAX_TOKENS, moments
from engine.expressions.queries.binding import (
    NOWHERE,
    Binder,
    QueryPlace,
    Tables,
    common_types,
)
from engine.expressions.queries.plan import (
    Distinct,
    LimitRows,
    Plan,
    Project,
    Query,
    Rows,
    SetOperation,
    Sort,
)
from engine.expressions.queries.reader import read_query
from engine.expressions.queries.scope import QueryScope
from engine.expressions.queries.select import bind_select, sort_key
from engine.expressions.queries.syntax import (
    OrderSyntax,
    QuerySyntax,
    SelectSyntax,
    SetSyntax,
    ValuesSyntax,
)
from engine.expressions.scope import Relation
from engine.expressions.tree import Call, Column, Expression
from engine.schema.types import DataType, StructField, StructType


def read_query_text(text: str) -> QuerySyntax:
    """Parse the clauses of a query.

    Raises:
        ExpressionError: too long, or a syntax error; `position` is its offset.
    """
    if len(text) > MAX_CHARACTERS:
        what = f"The query has {len(text)} characters: {MAX_CHARACTERS} is the limit."
        raise ExpressionError(what, "Compute a part of it into another table first.")
    cursor = Cursor(tokenize(text), text)
    if len(cursor.tokens) > MAX_TOKENS:
        what = f"The query has {len(cursor.tokens)} parts: {MAX_TOKENS} is the limit."
        raise ExpressionError(what, "Compute a part of it into another table first.")
    try:
        _refuse_variables(cursor.tokens)
        query = read_query(cursor)
        if not cursor.at_end:
            cursor.refuse("the end of the query was expected")
    except ExpressionError as error:
        note_part(error, text)
        raise
    return query


def _refuse_variables(tokens: list[Token]) -> None:
    """Refuse a variable of Spark: it is replaced even inside a quoted name.

    In a string, `${` is text, which is rendered so that Spark reads it as such.
    """
    for token, next_token in pairwise((*tokens, *tokens[-1:])):
        opens = token.text == "$" and next_token.text == "{"
        if opens or (token.kind != "string" and "${" in token.value):
            what = "Spark reads ${ in a query as a variable, and variables are not allowed."
            remedy = "Write the value itself. Rename a column that has ${ in its name."
            raise ExpressionError(what, remedy, position=token.position)


def bind_query(
    text: str, tables: Tables, *, now_ms: int | None = None, by_session: bool = False
) -> Query:
    """Bind a query to the tables of a resolver. `now_ms`, `by_session` as in `parse_condition`.

    Raises:
        UnknownColumnError: no table has a column; with its position.
        ExpressionError: anything else unsupported or not allowed.
        EngineError: a table does not exist, according to the resolver.
    """
    try:
        return QueryBinder(tables, moments(now_ms, by_session=by_session)).query(
            read_query_text(text)
        )
    except ExpressionError as error:
        note_part(error, text)
        raise


class QueryBinder(Binder):
    """Binds queries of every shape."""

    def query(self, syntax: QuerySyntax, place: QueryPlace = NOWHERE) -> Query:
        """Bind a query to the tables in scope."""
        common = dict(place.common)
        for table in syntax.common:
            common[table.name.lower()] = (table, QueryPlace(dict(common)))
        bound = self._body(syntax, replace(place, common=common))
        if syntax.limit is None and not syntax.offset:
            return bound
        return replace(bound, plan=LimitRows(bound.plan, syntax.limit, syntax.offset))

    def _body(self, syntax: QuerySyntax, place: QueryPlace) -> Query:
        body = syntax.body
        if isinstance(body, SelectSyntax):
            return bind_select(self, body, syntax.order, place)
        if isinstance(body, SetSyntax):
            query = self._set(body, place)
        elif isinstance(body, ValuesSyntax):
            query = self._values(body, place)
        else:
            query = self.query(body, place)
        return self._bind_order(query, syntax.order, place)

    def _bind_order(self, query: Query, order: tuple[OrderSyntax, ...], place: QueryPlace) -> Query:
        """Bind ORDER BY to the output columns."""
        if not order:
            return query
        schema, trees = self.name_columns(query, (), order[0].tokens[0].position)
        relation = Relation(schema, self.side())
        scope = QueryScope((relation,), place.outer)
        aliases = {name.lower(): tree for name, tree in zip(schema.names, trees, strict=True)}
        keys = []
        for key in order:
            number = _number(key, len(trees))
            grammar = self.grammar(
                key.tokens, scope, place, where="here", aliases=aliases, aliases_first=True
            )
            tree = trees[number - 1] if number else grammar.whole()
            keys.append(sort_key(tree, key))
        return replace(query, plan=Sort(query.plan, tuple(keys)))

    def _set(self, syntax: SetSyntax, place: QueryPlace) -> Query:
        left, right = (
            self._body(QuerySyntax((), body, (), None, 0), place)
            for body in (syntax.left, syntax.right)
        )
        if len(left.columns) != len(right.columns):
            what = f"{len(left.columns)} and {len(right.columns)} columns cannot be combined."
            raise ExpressionError(
                what, "Select the same number of columns on both sides.", position=syntax.position
            )
        types = common_types(
            [[column.type for _, column in query.columns] for query in (left, right)],
            syntax.position,
        )
        side = self.side()
        uniques = [f"{side}.{number}" for number in range(len(types))]
        sides = [_cast_side(query, uniques, types) for query in (left, right)]
        every = syntax.every or syntax.operator == "union"
        plan: Plan = SetOperation(syntax.operator, every, *sides)
        if not syntax.every and syntax.operator == "union":
            plan = Distinct(plan)
        columns = (Column((name,), kind) for name, kind in zip(uniques, types, strict=True))
        return Query(plan, tuple(zip(left.names, columns, strict=True)))

    def _values(self, syntax: ValuesSyntax, place: QueryPlace) -> Query:
        scope = QueryScope((), place.outer)
        rows = [
            tuple(self.grammar(tokens, scope, place, where="in VALUES").whole() for tokens in row)
            for row in syntax.rows
        ]
        if len({len(row) for row in rows}) != 1:
            what = "The rows of VALUES have different numbers of values."
            raise ExpressionError(
                what, "Give each row the same number of values.", position=syntax.position
            )
        types = common_types([[tree.type for tree in row] for row in rows], syntax.position)
        side = self.side()
        names = [f"col{number}" for number in range(1, len(types) + 1)]
        plan = Rows(tuple(f"{side}.{name}" for name in names), tuple(types), tuple(rows))
        fields = StructType(tuple(map(StructField, names, types)))
        return Query(plan, tuple((f.name, Column((f"{side}.{f.name}",), f.type)) for f in fields))


def _cast_side(query: Query, names: list[str], types: list[DataType]) -> Plan:
    """Project a side of a set operation to common names and types."""
    items = []
    for name, (_, column), kind in zip(names, query.columns, types, strict=True):
        tree: Expression = column if column.type == kind else Call("cast", (column,), kind)
        items.append((name, tree))
    return Project(query.plan, tuple(items))


def _number(order: OrderSyntax, count: int) -> int:
    """Return the column position a number refers to, 0 for anything else."""
    token = order.tokens[0]
    if len(order.tokens) != 1 or token.kind != "number" or not token.value.isdigit():
        return 0
    if not 1 <= int(token.value[:6]) <= count:
        what = f"There is no column {token.value} in the query."
        raise ExpressionError(what, "Use the column's name.", position=token.position)
    return int(token.value)
