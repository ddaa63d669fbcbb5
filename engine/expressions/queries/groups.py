"""What a SELECT with groups may say of them: their keys and aggregates, nothing of single rows."""

from collections.abc import Sequence
from dataclasses import replace

from engine.errors import ExpressionError
from engine.expressions.queries.grammar import Calls
from engine.expressions.queries.plan import AggregateCall, SortKey, WindowCall
from engine.expressions.queries.scope import shown
from engine.expressions.tree import Call, Column, Expression


class Groups:
    """The keys of GROUP BY and the aggregates, each under a name of the plan."""

    def __init__(self, side: str, keys: Sequence[Expression], calls: Calls) -> None:
        self._calls = calls
        self._keys = {
            tree: Column((f"{side}.k{number}",), tree.type)
            for number, tree in enumerate(dict.fromkeys(keys))
        }

    def named_keys(self) -> tuple[tuple[str, Expression], ...]:
        """The keys by name."""
        return tuple((column.path[0], tree) for tree, column in self._keys.items())

    def named_calls(self) -> tuple[tuple[str, AggregateCall], ...]:
        """The aggregates by name."""
        return tuple((name, call) for call, name in self._calls.aggregates.items())

    def over(self, tree: Expression, position: int) -> Expression:
        """The expression over the groups.

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
                    tuple(self.over(argument, position) for argument in arguments),
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
        name = ".".join((shown(column.path[0]), *column.path[1:]))
        what = f"The column {name} is neither grouped by nor in an aggregate."
        raise ExpressionError(what, "Add it to GROUP BY, or aggregate it.", position=position)

    def _window(self, call: WindowCall, position: int) -> WindowCall:
        order = tuple(
            SortKey(self.over(key.value, position), key.descending, key.nulls_first)
            for key in call.order
        )
        return replace(
            call,
            arguments=tuple(self.over(argument, position) for argument in call.arguments),
            partition=tuple(self.over(tree, position) for tree in call.partition),
            order=order,
        )
