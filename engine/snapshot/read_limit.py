"""The end of what is read at one time for a page: rows beyond it are Spark's."""

from engine.errors import RequestError


class ReadLimitError(RequestError):
    """The rows that a comparison would read are more than may be read at one time."""

    code = "LAKE_READ_LIMIT"
    sqlstate = "54000"

    def __init__(self, first: int, last: int, most_bytes: int) -> None:
        super().__init__(
            f"Versions {first} and {last} differ in more than {most_bytes / 2**20:,.0f} MiB, the most "
            "that is compared at one time.",
            "Compare versions that are closer together, or give a condition on partition or key "
            "columns.",
            field="where",
        )
        self.most_bytes = most_bytes


class CellLimitError(RequestError):
    """Rows of a data file are larger than may be read at one time for a page."""

    code = "LAKE_CELL_LIMIT"
    sqlstate = "54000"

    def __init__(self, size_bytes: int, most_bytes: int, column_path: str = "") -> None:
        """A row of `size_bytes`; most of it in the column, if one is named."""
        where = f"its column {column_path[:200]}" if column_path else "its rows"
        super().__init__(
            f"A data file holds {size_bytes / 2**20:,.0f} MiB in {where} at one place; a page reads at "
            f"most {most_bytes / 2**20:,.0f} MiB at one time.",
            "Choose other columns, or read the rows with a job or a program.",
            field="columns",
        )
