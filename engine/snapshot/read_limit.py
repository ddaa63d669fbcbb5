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
