"""The sums over a table's live files: of all of them at once, or file by file as commits change them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings

from lakeui.catalog import log_values


class FileNumbers(NamedTuple):
    """A live file's contribution to the sums. `rows` is None without statistics."""

    size: int
    rows: int | None
    deleted: int | None  # rows that its deletion vector marks; None without a vector


@dataclass(slots=True)
class FileSums:
    """Sums over live files; `rows` over those with a row count in their statistics."""

    files: int = 0
    size: int = 0
    small: int = 0
    rows: int = 0
    without_rows: int = 0
    deleted: int = 0
    vectored: int = 0

    @classmethod
    def from_files(cls, files: pa.Table) -> "FileSums":
        """Sum `snapshot.files()`."""
        size, rows = files.column("size"), files.column("num_records")
        vectors = files.column("deletion_vector")
        return cls(
            files=files.num_rows,
            size=_total(size),
            small=_total(pc.less(size, settings.SMALL_FILE_BYTES)),
            rows=_total(rows),
            without_rows=rows.null_count,
            deleted=_total(count_deleted_rows(files)),
            vectored=files.num_rows - vectors.null_count,
        )

    def count(self, file: FileNumbers, sign: int) -> None:
        """Count an added (1) or removed (-1) file."""
        self.files += sign
        self.size += sign * file.size
        self.small += sign * (file.size < settings.SMALL_FILE_BYTES)
        self.rows += sign * (file.rows or 0)
        self.without_rows += sign * (file.rows is None)
        self.deleted += sign * (file.deleted or 0)
        self.vectored += sign * (file.deleted is not None)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `Table` about them."""
        rows = None if self.without_rows else self.rows - self.deleted
        return {
            "file_count": self.files,
            "size_bytes": self.size,
            "row_count": log_values.integer(rows),
            "small_file_count": self.small,
            "deleted_row_count": self.deleted,
            "vectored_file_count": self.vectored,
        }


def count_deleted_rows(files: pa.Table) -> "pa.ChunkedArray[Any]":
    """Return the number of rows marked by each file's vector, null without one."""
    cardinalities: pa.ChunkedArray[Any] = pc.struct_field(
        files.column("deletion_vector"), "cardinality"
    )
    return cardinalities


def _total(column: "pa.ChunkedArray[Any]") -> int:
    return log_values.integer(pc.sum(column).as_py()) or 0
