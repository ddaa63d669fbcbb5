"""Binding of a SELECT to steps of a plan: its tables and joins, columns, groups, windows, order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.errors import ExpressionError
from engine.expressions import build
from engine.expressions.literals import is_whole
from engine.expressions.queries.binding import NOWHERE, Binder, QueryPlace, boolean, rename_columns
from engine.expressions.queries.grammar import Calls
from engine.expressions.queries.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Query,
    Rows,
    Sort,
    SortKey,
    WindowCall,
    Windows,
)
from engine.expressions.queries.scope import QueryScope, display_name, plan_column
from engine.expressions.queries.syntax import (
    DerivedTable,
    FromSyntax,
    ItemSyntax,
    JoinSyntax,
    OrderSyntax,
    SelectSyntax,
    TableName,
    Tokens,
    text_of,
)
from engine.expressions.scope import Relation
from engine.expressions.traits import conjunction, has_subquery, is_deterministic
from engine.expressions.tree import Call, Column, Expression, walk
from engine.schema.types import StructField, StructType


@dataclass(frozen=True)
class JoinedPlan:
    """A plan with the tables of its columns; `merged` are the sides of USING's columns."""

    plan: Plan
    relations: tuple[Relation, ...]
    merged: frozenset[str] = frozenset()

    def scope(self, place: QueryPlace) -> QueryScope:
        """Return the scope of expressions over it."""
        return QueryScope(self.relations, place.outer, merged=self.merged)


Item = tuple[str, Expression]
_NO_TABLE = JoinedPlan(Rows((), (), ((),)), ())


class Groups:
    """The keys of GROUP BY and the aggregates, each under a name of the plan."""

    def __init__(self, side: str, keys: Sequence[Expression], calls: Calls) -> None:
        self._calls = calls
        self._keys = {
            tree: Column((f"{side}.k{number}",), tree.type)
            for number, tree in enumerate(dict.fromkeys(keys))
        }

    def list_keys(self) -> tuple[tuple[str, Expression], ...]:
        """Return the keys by name."""
        return tuple((column.path[0], tree) for tree, column in self._keys.items())

    def list_calls(self) -> tuple[tuple[str, AggregateCall], ...]:
        """Return the aggregates by name."""
        return tuple((name, call) for call, name in self._calls.aggregates.items())

    def rewrite_over_groups(self, tree: Expression, position: int) -> Expression:
        """Rewrite an expression over the groups.

        Raises:
            ExpressionError: it names a column that is neither a key nor in an aggregate.
        """
        column = self._keys.get(tree)
        if column is not None:
            return column
        match tree:
            case Column():
                return self._column(tree, position)
            case Call(function, arguments, data_type):
                return Call(
                    function,
                    tuple(self.rewrite_over_groups(argument, position) for argument in arguments),
                    data_type,
                )
            case _:
                return tree

    def regroup_windows(self, calls: Calls, position: int) -> None:
        """Have window functions see the groups."""
        calls.windows = {self._window(call, position): name for call, name in calls.windows.items()}

    def _column(self, column: Column, position: int) -> Column:
        made = {*self._calls.aggregates.values(), *self._calls.windows.values()}
        if column.path[0] in made:
            return column
        for key, named in self._keys.items():
            if isinstance(key, Column) and key.path == column.path[: len(key.path)]:
                return Column((*named.path, *column.path[len(key.path) :]), column.type)
        name = ".".join((display_name(column.path[0]), *column.path[1:]))
        what = f"The column {name} is neither in GROUP BY nor in an aggregate."
        raise ExpressionError(what, "Add it to GROUP BY, or aggregate it.", position=position)

    def _window(self, call: WindowCall, position: int) -> WindowCall:
        order = tuple(
            SortKey(self.rewrite_over_groups(key.value, position), key.descending, key.nulls_first)
            for key in call.order
        )
        return replace(
            call,
            arguments=tuple(
                self.rewrite_over_groups(argument, position) for argument in call.arguments
            ),
            partition=tuple(self.rewrite_over_groups(tree, position) for tree in call.partition),
            order=order,
        )


def bind_select(
    binder: Binder, select: SelectSyntax, order: Sequence[OrderSyntax], place: QueryPlace
) -> Query:
    """Bind a SELECT with its order."""
    return _Select(binder, select, place).query(order)


class _Select:
    def __init__(self, binder: Binder, select: SelectSyntax, place: QueryPlace) -> None:
        self.binder, self.select, self.place = binder, select, place
        joined = bind_from(binder, select.source, place) if select.source else _NO_TABLE
        self.plan: Plan = joined.plan
        self.scope: QueryScope = joined.scope(place)
        self.calls = Calls(binder.side())
        self.items: list[Item] = []
        self.aliases: dict[str, Expression] = {}
        self._named: set[str] = set()

    def query(self, order: Sequence[OrderSyntax]) -> Query:
        if self.select.where:
            where = self.binder.condition(self.select.where, self.scope, self.place, "in WHERE")
            self.plan = Filter(self.plan, where)
        for item in self.select.items:
            self.items += self._item(item)
        keys = self._keys()
        aliases = {name.lower(): tree for name, tree in self.items}
        having = self._late(self.select.having, aliases)
        qualify = self._late(self.select.qualify, aliases)
        sort = [self._sort_key(key, aliases) for key in order]
        if keys or self.calls.aggregates or self.select.having:
            groups = Groups(self.binder.side(), keys, self.calls)
            having, qualify, sort = self._apply_groups(groups, having, qualify, sort)
        self._filter(having)
        if self.calls.windows:
            self.plan = Windows(self.plan, tuple((n, c) for c, n in self.calls.windows.items()))
        self._filter(qualify)
        return self._output(sort)

    def _filter(self, condition: Expression | None) -> None:
        if condition is not None:
            self.plan = Filter(self.plan, condition)

    def _item(self, item: ItemSyntax) -> list[Item]:
        if item.star:
            return self._star(item)
        grammar = self.binder.grammar(
            item.tokens, self.scope, self.place, calls=self.calls, aliases=self.aliases
        )
        grammar.aliases_in_calls = False
        tree = grammar.whole()
        if item.alias:
            self._remember(item.alias, tree)
            return [(item.alias, tree)]
        named = isinstance(tree, Column) and not tree.path[0].startswith(self.calls.side)
        name = (
            display_name(tree.path[-1])
            if named and isinstance(tree, Column)
            else text_of(item.tokens)
        )
        if named and isinstance(tree, Column) and len(tree.path) > 1:
            name = tree.path[-1]
        return [(name, tree)]

    def _remember(self, alias: str, tree: Expression) -> None:
        """Let later columns use an alias, unless it is ambiguous or not repeatable."""
        key = alias.lower()
        again = key in self._named or _uses(tree, frozenset(self.calls.windows.values()))
        if again or not is_deterministic(tree) or has_subquery(tree):
            self.aliases.pop(key, None)
        else:
            self.aliases[key] = tree
        self._named.add(key)

    def _star(self, item: ItemSyntax) -> list[Item]:
        columns: list[Item] = list(self.scope.columns(item.qualifier))
        if not columns:
            what = (
                f"There is no table {item.qualifier} in FROM."
                if item.qualifier
                else ("* selects no columns here.")
            )
            position = self.select.position
            raise ExpressionError(what, "Name the columns.", position=position)
        left_out = {name.lower() for name in item.left_out}
        unknown = left_out - {name.lower() for name, _ in columns}
        if unknown:
            what = f"EXCEPT lists {sorted(unknown)[0]}, which is not a column."
            raise ExpressionError(what, "Leave it out.", position=self.select.position)
        return [column for column in columns if column[0].lower() not in left_out]

    def _keys(self) -> list[Expression]:
        """Return the grouping keys: columns, expressions, item numbers or names, or ALL."""
        written = self.select.group_by
        if len(written) == 1 and [token.value for token in written[0]] == ["ALL"]:
            names = frozenset(self.calls.aggregates.values())
            return [tree for _, tree in self.items if not _uses(tree, names)]
        aliases = {name.lower(): tree for name, tree in self.items}
        return [self._key(tokens, aliases) for tokens in written]

    def _key(self, tokens: Tokens, aliases: Mapping[str, Expression]) -> Expression:
        tree = (
            self._resolve_item_number(tokens)
            or self.binder.grammar(
                tokens, self.scope, self.place, where="in GROUP BY", aliases=aliases
            ).whole()
        )
        called = {*self.calls.aggregates.values(), *self.calls.windows.values()}
        if _uses(tree, frozenset(called)):
            what = "GROUP BY cannot contain an aggregate."
            raise ExpressionError(what, "Use a subquery in FROM.", position=tokens[0].position)
        return tree

    def _resolve_item_number(self, tokens: Tokens) -> Expression | None:
        """Return the item a number in GROUP BY or ORDER BY refers to."""
        if len(tokens) != 1 or tokens[0].kind != "number" or not is_whole(tokens[0].value):
            return None
        number = int(tokens[0].value[:6])
        if not 1 <= number <= len(self.items):
            what = f"There is no column {number} in the SELECT."
            raise ExpressionError(what, "Use the column's name.", position=tokens[0].position)
        return self.items[number - 1][1]

    def _late(self, tokens: Tokens, aliases: Mapping[str, Expression]) -> Expression | None:
        """Parse a condition over the SELECT's results: HAVING, QUALIFY."""
        if not tokens:
            return None
        grammar = self.binder.grammar(
            tokens, self.scope, self.place, calls=self.calls, aliases=aliases
        )
        return boolean(grammar.whole(), tokens)

    def _sort_key(self, order: OrderSyntax, aliases: Mapping[str, Expression]) -> SortKey:
        tree = (
            self._resolve_item_number(order.tokens)
            or self.binder.grammar(
                order.tokens,
                self.scope,
                self.place,
                calls=self.calls,
                aliases=aliases,
                aliases_first=True,
            ).whole()
        )
        return sort_key(tree, order)

    def _apply_groups(
        self,
        groups: Groups,
        having: Expression | None,
        qualify: Expression | None,
        sort: list[SortKey],
    ) -> tuple[Expression | None, Expression | None, list[SortKey]]:
        """Rewrite everything after GROUP BY over the groups instead of the rows."""
        position = self.select.position
        self.items = [
            (name, groups.rewrite_over_groups(tree, position)) for name, tree in self.items
        ]
        self.plan = Aggregate(self.plan, groups.list_keys(), groups.list_calls())
        groups.regroup_windows(self.calls, position)
        late = [
            None if clause is None else groups.rewrite_over_groups(clause, position)
            for clause in (having, qualify)
        ]
        if late[0] is not None and _uses(late[0], frozenset(self.calls.windows.values())):
            what = "HAVING cannot use a window function."
            raise ExpressionError(what, "Use QUALIFY.", position=position)
        keys = [
            SortKey(
                groups.rewrite_over_groups(key.value, position), key.descending, key.nulls_first
            )
            for key in sort
        ]
        return late[0], late[1], keys

    def _output(self, sort: list[SortKey]) -> Query:
        """Build the output columns, then DISTINCT and ORDER BY."""
        side = self.binder.side()
        outputs = [
            (f"{side}.{number}", name, tree) for number, (name, tree) in enumerate(self.items)
        ]
        outputs_of = {tree: Column((unique,), tree.type) for unique, _, tree in outputs}
        hidden: list[Item] = []
        keys = []
        for key in sort:
            if key.value not in outputs_of:
                unique = f"{side}.o{len(hidden)}"
                hidden.append((unique, key.value))
                outputs_of[key.value] = Column((unique,), key.value.type)
            keys.append(SortKey(outputs_of[key.value], key.descending, key.nulls_first))
        if self.select.distinct and hidden:
            what = "ORDER BY of a SELECT DISTINCT can only use selected columns."
            raise ExpressionError(what, "Select the column too.", position=self.select.position)
        plan: Plan = Project(self.plan, (*((unique, tree) for unique, _, tree in outputs), *hidden))
        plan = Distinct(plan) if self.select.distinct else plan
        plan = Sort(plan, tuple(keys)) if keys else plan
        return Query(
            plan, tuple((name, Column((unique,), tree.type)) for unique, name, tree in outputs)
        )


def sort_key(tree: Expression, order: OrderSyntax) -> SortKey:
    """Build a sort key; nulls come first in ascending order, as in Spark."""
    nulls_first = not order.descending if order.nulls_first is None else order.nulls_first
    return SortKey(tree, order.descending, nulls_first)


def _uses(tree: Expression, names: frozenset[str]) -> bool:
    return any(isinstance(node, Column) and node.path[0] in names for node in walk(tree))


def bind_from(binder: Binder, source: FromSyntax, place: QueryPlace) -> JoinedPlan:
    """Bind a FROM clause.

    Raises:
        ExpressionError: a join is invalid.
        EngineError: a table does not exist.
    """
    match source:
        case TableName():
            return _table(binder, source, place)
        case DerivedTable():
            return _bind_derived_table(binder, source, place)
        case JoinSyntax():
            return _join(binder, source, place)


def _table(binder: Binder, source: TableName, place: QueryPlace) -> JoinedPlan:
    names = (source.alias or source.name.rpartition(".")[2].rpartition("/")[2],)
    common = place.common.get(source.name.lower())
    if common is None:
        if source.columns:
            what = f"The columns of {source.name} cannot be renamed here."
            raise ExpressionError(
                what, "Rename them with AS in the SELECT.", position=source.position
            )
        scan, relation = binder.scan(source.name, source.version, names, source.position)
        return JoinedPlan(scan, (relation,))
    if source.version is not None:
        what = f"{source.name} is a query, and a query has no versions."
        raise ExpressionError(what, "Remove AS OF.", position=source.position)
    table, seen = common
    query = binder.query(table.query, seen)
    schema, trees = binder.name_columns(query, source.columns or table.columns, source.position)
    relation = binder.relation(schema, names, source.position)
    return JoinedPlan(rename_columns(query.plan, relation, trees), (relation,))


def _bind_derived_table(binder: Binder, source: DerivedTable, place: QueryPlace) -> JoinedPlan:
    query = binder.query(source.query, place.detach_outer())
    schema, trees = binder.name_columns(query, source.columns, source.position)
    relation = binder.relation(schema, (source.alias,), source.position)
    return JoinedPlan(rename_columns(query.plan, relation, trees), (relation,))


def _join(binder: Binder, source: JoinSyntax, place: QueryPlace) -> JoinedPlan:
    left, right = bind_from(binder, source.left, place), bind_from(binder, source.right, place)
    _check_names(left.relations, right.relations, source.position)
    both = JoinedPlan(left.plan, (*left.relations, *right.relations), left.merged | right.merged)
    if source.using:
        return _bind_using(binder, source, left, right)
    on = None
    if source.on:
        inner = place.detach_outer()
        on = binder.condition(source.on, both.scope(inner), inner, "in ON")
    plan = Join(left.plan, right.plan, source.how, on)
    if source.how in {"left_semi", "left_anti"}:
        return JoinedPlan(plan, left.relations, left.merged)
    return JoinedPlan(plan, both.relations, both.merged)


def _bind_using(
    binder: Binder, source: JoinSyntax, left: JoinedPlan, right: JoinedPlan
) -> JoinedPlan:
    mine, theirs = left.scope(NOWHERE), right.scope(NOWHERE)
    pairs = [
        (name, mine.resolve([name], source.position), theirs.resolve([name], source.position))
        for name in source.using
    ]
    on = conjunction(build.call("=", (one, other), source.position) for _, one, other in pairs)
    plan: Plan = Join(left.plan, right.plan, source.how, on)
    if source.how in {"left_semi", "left_anti"}:
        return JoinedPlan(plan, left.relations, left.merged)
    items = [(name, _choose_column(source.how, one, other)) for name, one, other in pairs]
    fields = tuple(StructField(name, tree.type) for name, tree in items)
    merged = binder.relation(StructType(fields), (), source.position)
    relations = (*left.relations, *right.relations)
    columns = [
        plan_column(Column((f.name,), f.type, relation.side))
        for relation in relations
        for f in relation.schema
    ]
    kept: list[tuple[str, Expression]] = [(column.path[0], column) for column in columns]
    new = [(f"{merged.side}.{name}", tree) for name, tree in items]
    return JoinedPlan(
        Project(plan, (*kept, *new)),
        (*relations, merged),
        left.merged | right.merged | {merged.side},
    )


def _choose_column(how: str, one: Expression, other: Expression) -> Expression:
    if how == "full":
        return build.call("coalesce", (one, other))
    return other if how == "right" else one


def _check_names(left: Sequence[Relation], right: Sequence[Relation], position: int) -> None:
    mine = {name.lower() for relation in left for name in relation.names if name}
    for name in (name for relation in right for name in relation.names):
        if name.lower() in mine:
            what = f"Two tables are called {name}."
            raise ExpressionError(what, "Rename one of them with AS.", position=position)
