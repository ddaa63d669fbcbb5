"""A sample table of two files and eight rows, to compare any two statements.

The checks and the row-level code are the real ones; only the rows are made up. So pages about two
statements always agree with the engine.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from engine.actions.files import AddFile, DeletionVectorDescriptor
from engine.actions.table import Metadata, Protocol
from engine.conflicts.decide.row_access import NO_ROWS, Positions
from engine.conflicts.eligibility import (
    IDENTITY_KEY,
    ROW_TRACKING_PROPERTY,
    VECTORS_PROPERTY,
    table_eligibility,
)
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.transaction_info import ReadPredicate, RowScope
from engine.expressions.evaluate import find_matches
from engine.schema.types import INTEGER, STRING, StructField, StructType

SCHEMA = StructType((StructField("id", INTEGER), StructField("date", STRING)))
Row = tuple[int, str]


@dataclass(frozen=True, slots=True)
class TableSetting:
    """The table on which two statements overlap: its level, its features and its layout.

    `supports_clustering`: its protocol has the feature, even without clustering columns.
    """

    level: IsolationLevel
    vectors: bool
    partitioned: bool = False
    row_tracking: bool = False
    clustered: bool = False
    identity: bool = False  # an identity column: inserts move its mark in the metadata
    supports_clustering: bool = False

    @property
    def knows_clustering(self) -> bool:
        """Whether its clustering columns can change without a change of the protocol."""
        return self.clustered or self.supports_clustering

    @property
    def schema(self) -> StructType:
        """The columns `id` and `date`."""
        if not self.identity:
            return SCHEMA
        marked = StructField("id", INTEGER, metadata={IDENTITY_KEY: 1})
        return StructType((marked, *SCHEMA.fields[1:]))

    @property
    def scope(self) -> RowScope:
        """The level of conflict resolution on such a table."""
        return _scope_on(self)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns it is partitioned by."""
        return ("date",) if self.partitioned else ()


@lru_cache(maxsize=256)
def _scope_on(setting: TableSetting) -> RowScope:
    features = ["deletionVectors"] if setting.vectors else []
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=features,
    )
    metadata = Metadata(
        id="sample_table",
        schema_string=setting.schema.to_json(),
        partition_columns=list(setting.partition_columns),
        configuration={
            VECTORS_PROPERTY: str(setting.vectors).lower(),
            ROW_TRACKING_PROPERTY: str(setting.row_tracking).lower(),
        },
    )
    eligibility = table_eligibility(metadata, protocol, ("id",) if setting.clustered else ())
    return RowScope(
        eligibility.lack,  # its columns are made up
        eligibility.traces_moves,
        eligibility.traces_order,
        eligibility.facts,
    )


@dataclass(slots=True)
class SampleTable:
    """The files of the sample table, and the `RowAccess` for reading them.

    Partitioned, the files `d1` and `d2` hold the ids 1 to 4 of their date; otherwise one holds the
    ids 1 to 4, the other 5 to 8. `origins` number the rows across rewrites.
    """

    setting: TableSetting
    rows: dict[str, list[Row]] = field(default_factory=dict)
    origins: dict[str, list[int]] = field(default_factory=dict)
    vectors: dict[str, BitMap64] = field(default_factory=dict)

    def __post_init__(self) -> None:
        second = range(1, 5) if self.setting.partitioned else range(5, 9)
        self.rows = {"d1": [(i, "d1") for i in range(1, 5)], "d2": [(i, "d2") for i in second]}
        self.origins = {"d1": [0, 1, 2, 3], "d2": [4, 5, 6, 7]}

    @property
    def files(self) -> list[AddFile]:
        """The two files found by both sides."""
        return [self.file(path, self.rows[path]) for path in ("d1", "d2")]

    def file(
        self,
        path: str,
        rows: list[Row],
        *,
        data_change: bool = True,
        origins: list[int] | None = None,
    ) -> AddFile:
        """Add a file of these rows, with exact statistics."""
        self.rows[path] = rows
        self.origins[path] = origins or self.origins.get(path, [])
        ids = [row[0] for row in rows]
        bounds = {"minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}}
        stats = {"numRecords": len(rows), **bounds, "nullCount": {"id": 0}}
        return AddFile(
            path=path,
            partition_values={"date": rows[0][1]} if self.setting.partitioned else {},
            size=1,
            modification_time=0,
            data_change=data_change,
            stats=msgspec.json.encode(stats).decode(),
        )

    def mask_rows(self, file: AddFile, rows: BitMap64, name: str) -> AddFile:
        """Delete rows of a file by a vector of this name."""
        vector = DeletionVectorDescriptor("u", f"{name}-{file.path}", 1, len(rows))
        self.vectors[vector.unique_id] = rows
        return msgspec.structs.replace(file, deletion_vector=vector)

    def vector(self, descriptor: DeletionVectorDescriptor | None) -> BitMap64:
        """Return the rows a vector of this sample table deletes."""
        return NO_ROWS if descriptor is None else self.vectors[descriptor.unique_id]

    def row_count(self, path: str) -> int:
        """Return the rows of a file of this sample table."""
        return len(self.rows[path])

    def select_rows(self, read: ReadPredicate, file: AddFile, among: BitMap64) -> BitMap64:
        """Return the rows a condition selects, as on a real table."""
        if read.condition is None:
            return among
        ids, dates = zip(*self.rows[file.path], strict=True)
        table = pa.table({"id": pa.array(ids, pa.int32()), "date": pa.array(dates)})
        mask = find_matches(read.condition, table).to_pylist()
        return BitMap64(place for place in among if mask[place])

    def row_ids(self, file: AddFile) -> Positions | None:
        """Return the rows' numbers, if the table has row tracking."""
        if not self.setting.row_tracking:
            return None
        return np.array(self.origins[file.path], dtype=np.int64)
