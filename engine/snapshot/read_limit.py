"""Limit on the rows a page reads at one time; larger reads need Spark."""

from engine.errors import RequestError


class ReadLimitError(RequestError, code="LAKE_READ_LIMIT", sqlstate="54000"):
    """A comparison would read more rows than allowed at one time."""

    def __init__(self, first: int, last: int, most_bytes: int) -> None:
        super().__init__(
            f"Versions {first} and {last} differ in more than {most_bytes / 2**20:,.0f} MiB, the most "
            "that is compared at one time.",
            "Compare versions that are closer together, or give a condition on partition or key "
            "columns.",
            field="where",
        )
        self.most_bytes = most_bytes


class CellLimitError(RequestError, code="LAKE_CELL_LIMIT", sqlstate="54000"):
    """Rows of a data file are larger than may be read at one time for a page."""

    def __init__(self, size_bytes: int, most_bytes: int, column_path: str = "") -> None:
        """Describe a row of `size_bytes`, with its largest column if given."""
        where = f"its column {column_path[:200]}" if column_path else "its rows"
        super().__init__(
            f"A data file holds {size_bytes / 2**20:,.0f} MiB in {where} at one place; a page reads at "
            f"most {most_bytes / 2**20:,.0f} MiB at one time.",
            "Choose other columns, or read the rows with a job or a program.",
            field="columns",
        )
