"""The commands of a generated history as values, with their effect on single rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.stateful.ranges import NOWHERE, Range, Row, Rows

__all__ = ["Command", "Range", "Row", "Rows", "State"]


@dataclass(frozen=True)
class State:
    """A table: its rows, and what ALTER changes of it.

    `extra` is the name that a column has which comes and goes, None where it is gone. `terms` are
    the properties, constraints, features and clustering columns that histories set.
    """

    rows: Rows = field(default_factory=dict)
    extra: str | None = "e"
    terms: Mapping[str, str] = field(default_factory=dict)

    def new(self, part: str, x: int | None, number: int) -> Row:
        """A row that a command writes."""
        return part, x, number, None if self.extra is None else number


@dataclass(frozen=True)
class Command:
    """A command; its `number` makes the rows that it writes unique."""

    number: int

    def apply(self, state: State) -> State:
        """The table after it, were it alone."""
        return replace(state, rows=self.change(state))

    def change(self, state: State) -> Rows:
        """The rows after it."""
        return state.rows


@dataclass(frozen=True)
class Append(Command):
    values: tuple[tuple[str, int | None], ...] = ()

    def change(self, state: State) -> Rows:
        return state.rows | self.new_rows(state)

    def new_rows(self, state: State) -> Rows:
        return {
            f"{self.number}.{i}": state.new(p, x, self.number)
            for i, (p, x) in enumerate(self.values)
        }


@dataclass(frozen=True)
class Delete(Command):
    """Rows go by deletion vectors, or by a `rewrite` of their files.

    Without the `promise` to change every match, rows that a winning commit removed are read again; where
    None, the number decides.
    """

    where: Range = NOWHERE
    rewrite: bool = False
    promise: bool | None = None

    def change(self, state: State) -> Rows:
        return {key: row for key, row in state.rows.items() if not self.where.holds(row)}


@dataclass(frozen=True)
class Update(Command):
    """An update: like DELETE, and the rows return with another x, and in another part if one is named."""

    where: Range = NOWHERE
    x: int | None = 0
    rewrite: bool = False
    promise: bool | None = None
    part: str | None = None

    def change(self, state: State) -> Rows:
        return {
            key: self.image(row) if self.where.holds(row) else row
            for key, row in state.rows.items()
        }

    def image(self, row: Row) -> Row:
        """A row that it changes, afterwards."""
        return self.part or row[0], self.x, self.number, row[3]


@dataclass(frozen=True)
class Merge(Command):
    """A merge that joins on x, by clauses that are tried in this order.

    WHEN MATCHED AND x < `first[0]` does what `first[1]` says, WHEN MATCHED what `matched` says:
    "update" gives the row this command's number, "shift" another x too, "delete" takes it,
    "nothing" leaves it. NOT MATCHED inserts into `part`, unless `inserts` is off. NOT MATCHED BY
    SOURCE AND x < `unmatched_below` does what `otherwise` says. `within_part` the join names the
    partition as well.
    """

    keys: tuple[int, ...] = ()
    matched: str = "update"
    unmatched_below: int | None = None
    otherwise: str = "delete"
    first: tuple[int, str] | None = None
    inserts: bool = True
    part: str = "a"
    within_part: bool = False

    def change(self, state: State) -> Rows:
        joined = {row[1] for row in state.rows.values() if self.joins(row[0])}
        images = {key: self.image(row) for key, row in state.rows.items()}
        kept = {key: row for key, row in images.items() if row is not None}
        return kept | self.new_rows(joined, state)

    def image(self, row: Row) -> Row | None:
        """A row afterwards, None where it goes."""
        x = row[1]
        if x is None or not self.reads(x) or not self.joins(row[0]):
            return row
        action = self.matched if x in self.keys else self.otherwise
        if x in self.keys and self.first is not None and x < self.first[0]:
            action = self.first[1]
        images = {
            "update": (row[0], x, self.number, row[3]),
            "shift": (row[0], (x + 3) % 8, self.number, row[3]),
            "nothing": row,
        }
        return images.get(action)

    @property
    def within(self) -> str | None:
        """Return the range of possible matches according to the keys, or None for everywhere."""
        if self.unmatched_below is not None:
            return None
        part = f"part = '{self.part}' AND " if self.within_part else ""
        return f"{part}x >= {min(self.keys)} AND x <= {max(self.keys)}"

    def joins(self, part: str) -> bool:
        """Return True if the join can match rows of a partition."""
        return not self.within_part or part == self.part

    def reads(self, x: int | None) -> bool:
        if x is None:
            return False
        below = self.unmatched_below is not None and x < self.unmatched_below
        return x in self.keys or below

    def new_rows(self, joined: set[int | None], state: State) -> Rows:
        missing = [x for x in self.keys if x not in joined and self.inserts]
        return {f"{self.number}.{x}": state.new(self.part, x, self.number) for x in missing}


@dataclass(frozen=True)
class InsertSelect(Command):
    where: Range = NOWHERE

    def change(self, state: State) -> Rows:
        joined = {k: row for k, row in state.rows.items() if self.where.holds(row)}
        return state.rows | self.new_rows(joined, state)

    def new_rows(self, joined: Rows, state: State) -> Rows:
        return {
            f"{self.number}.{key}": state.new(row[0], row[1], self.number)
            for key, row in joined.items()
        }


@dataclass(frozen=True)
class ReplaceWhere(Command):
    where: Range = NOWHERE
    values: tuple[tuple[str, int | None], ...] = ()

    def change(self, state: State) -> Rows:
        kept = {key: row for key, row in state.rows.items() if not self.where.holds(row)}
        return kept | Append(self.number, self.values).new_rows(state)


@dataclass(frozen=True)
class Overwrite(Command):
    """An overwrite of all rows, or of those in the `partitions` of the new rows."""

    values: tuple[tuple[str, int | None], ...] = ()
    partitions: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The partitions that go."""
        return tuple(sorted({part for part, _ in self.values})) if self.partitions else ("a", "b")

    def change(self, state: State) -> Rows:
        kept = {key: row for key, row in state.rows.items() if row[0] not in self.parts}
        return kept | Append(self.number, self.values).new_rows(state)


@dataclass(frozen=True)
class Truncate(Command):
    def change(self, state: State) -> Rows:  # noqa: ARG002 - none is left
        return {}


@dataclass(frozen=True)
class Optimize(Command):
    """A compaction of the files whose index in the list is in `picks`; `sort` changes their order.

    Fewer files than `least` are left as they are.
    """

    picks: tuple[int, ...] = ()
    sort: bool = False
    tagged: bool = True
    least: int = 1


@dataclass(frozen=True)
class Reorg(Command):
    """A rewrite of each file with deleted rows, without them."""


@dataclass(frozen=True)
class Restore(Command):
    """Restore the version `back` before the read version, including its physical layout."""

    back: int = 1
    restored: State = field(default_factory=State, hash=False)

    def apply(self, state: State) -> State:
        """Restore everything except features."""
        added = {name: text for name, text in state.terms.items() if name.startswith("feature ")}
        return replace(self.restored, terms={**self.restored.terms, **added})


@dataclass(frozen=True)
class Alter(Command):
    """A change of the table that changes no row.

    `what` is "set" (a property), "constrain" (x stays below `value`), "cluster" (by x or n), "feature"
    (one more), "add", "drop" or "rename" (the extra column).
    """

    what: str = "set"
    value: str = ""

    def apply(self, state: State) -> State:
        match self.what:
            case "set" | "cluster" | "constrain" | "feature":
                return replace(state, terms={**state.terms, **dict([self.term])})
            case "add" if state.extra is None:
                return replace(state, extra=self.column)
            case "rename" if state.extra is not None:
                return replace(state, extra=self.column)
            case "drop":
                rows = {key: (*row[:3], None) for key, row in state.rows.items()}
                return replace(state, extra=None, rows=rows)
        return state

    @property
    def term(self) -> tuple[str, str]:
        """Return the term that the command adds to the table."""
        match self.what:
            case "set":
                return f"note.{self.value}", str(self.number)
            case "cluster":
                return "clustered by", self.value
            case "constrain":
                return CONSTRAINT, f"x IS NULL OR x < {self.value}"
        return f"feature {self.value}", "supported"

    @property
    def column(self) -> str:
        """A name for the extra column."""
        return f"e{self.number}"


CONSTRAINT = "delta.constraints.small"
FEATURES = ("allowColumnDefaults", "domainMetadata", "inCommitTimestamp")


def breaks_constraint(rows: Rows, terms: Mapping[str, str]) -> bool:
    """Return True if a row violates the table's constraint; null passes."""
    text = terms.get(CONSTRAINT)
    if text is None:
        return False
    limit = int(text.rpartition(" ")[2].rstrip(")"))
    return any(row[1] is not None and row[1] >= limit for row in rows.values())
