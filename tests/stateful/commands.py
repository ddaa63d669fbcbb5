"""The commands of a generated history, as values, and what each means for rows one at a time."""

from dataclasses import dataclass, field

Rows = dict[str, tuple[str, int, int]]
"""Every row by its identity: partition, x, and the number of the command that last wrote it."""


@dataclass(frozen=True)
class Range:
    """`low <= x < high`, of one partition if named; or one more value of x."""

    low: int
    high: int
    part: str | None = None
    also: int | None = None

    @property
    def sql(self) -> str:
        text = f"x >= {self.low} AND x < {self.high}"
        text = text if self.part is None else f"part = '{self.part}' AND {text}"
        return text if self.also is None else f"{text} OR x = {self.also}"

    def holds(self, row: tuple[str, int, int]) -> bool:
        inside = self.low <= row[1] < self.high and self.part in (None, row[0])
        return inside or row[1] == self.also


@dataclass(frozen=True)
class Command:
    """`number` makes what it writes its own."""

    number: int

    def apply(self, rows: Rows) -> Rows:
        """The rows after it, were it alone."""
        return rows


@dataclass(frozen=True)
class Append(Command):
    values: tuple[tuple[str, int], ...] = ()

    def apply(self, rows: Rows) -> Rows:
        return rows | self.new_rows()

    def new_rows(self) -> Rows:
        return {f"{self.number}.{i}": (p, x, self.number) for i, (p, x) in enumerate(self.values)}


@dataclass(frozen=True)
class Delete(Command):
    """Rows go by deletion vectors, or by a `rewrite` of their files.

    Without the `promise` to change every match, rows that a winner removed are read again; where
    None, the number decides.
    """

    where: Range = Range(0, 0)
    rewrite: bool = False
    promise: bool | None = None

    def apply(self, rows: Rows) -> Rows:
        return {key: row for key, row in rows.items() if not self.where.holds(row)}


@dataclass(frozen=True)
class Update(Command):
    """As DELETE, and the rows come back with another x."""

    where: Range = Range(0, 0)
    x: int = 0
    rewrite: bool = False
    promise: bool | None = None

    def apply(self, rows: Rows) -> Rows:
        return {
            key: (row[0], self.x, self.number) if self.where.holds(row) else row
            for key, row in rows.items()
        }


@dataclass(frozen=True)
class Merge(Command):
    """Joins on x. Matched rows get this command's number, are deleted, or stay as they are.

    Source values without a match are inserted; target rows below `unmatched_below` that no source
    row joins are deleted.
    """

    keys: tuple[int, ...] = ()
    matched: str = "update"
    unmatched_below: int | None = None

    def apply(self, rows: Rows) -> Rows:
        found = {row[1] for row in rows.values()}
        kept = {key: new for key, row in rows.items() if (new := self.change(row)) is not None}
        return kept | self.inserts(found)

    def change(self, row: tuple[str, int, int]) -> tuple[str, int, int] | None:
        if row[1] in self.keys:
            if self.matched == "delete":
                return None
            return (row[0], row[1], self.number) if self.matched == "update" else row
        below = self.unmatched_below is not None and row[1] < self.unmatched_below
        return None if below else row

    def reads(self, x: int) -> bool:
        below = self.unmatched_below is not None and x < self.unmatched_below
        return x in self.keys or below

    def inserts(self, found: set[int]) -> Rows:
        missing = [x for x in self.keys if x not in found]
        return {f"{self.number}.{x}": ("a", x, self.number) for x in missing}


@dataclass(frozen=True)
class InsertSelect(Command):
    where: Range = Range(0, 0)

    def apply(self, rows: Rows) -> Rows:
        return rows | self.new_rows({k: row for k, row in rows.items() if self.where.holds(row)})

    def new_rows(self, found: Rows) -> Rows:
        return {f"{self.number}.{key}": (row[0], row[1], self.number) for key, row in found.items()}


@dataclass(frozen=True)
class ReplaceWhere(Command):
    where: Range = Range(0, 0)
    values: tuple[tuple[str, int], ...] = ()

    def apply(self, rows: Rows) -> Rows:
        kept = {key: row for key, row in rows.items() if not self.where.holds(row)}
        return kept | Append(self.number, self.values).new_rows()


@dataclass(frozen=True)
class Optimize(Command):
    """Rewrites the files whose place in the list is in `picks`; `sort` loses their order.

    Fewer files than `least` are left as they are.
    """

    picks: tuple[int, ...] = ()
    sort: bool = False
    tagged: bool = True
    least: int = 1


@dataclass(frozen=True)
class Restore(Command):
    """Back to the version that is `back` before the one it reads. What it restores is physical."""

    back: int = 1
    restored: Rows = field(default_factory=dict, hash=False)
