"""Tables written by deltalake's own commands."""

from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.engine.foreign.hand_writer import HandWriter
from tests.engine.foreign.tables import foreign_table

FIRST = pa.table({"id": [1, 2, 3], "p": ["a", "b", None]})
AT = datetime(2024, 1, 1, tzinfo=UTC)


@foreign_table(
    {
        0: ((1, "a"), (2, "b"), (3, None)),
        1: ((1, "a"), (2, "b"), (3, None), (4, "a")),
        2: ((1, "a"), (3, None), (4, "a")),
        3: ((1, "a"), (3, "x"), (4, "a")),
        4: ((1, "m"), (3, "x"), (4, "a"), (9, "n")),
        5: ((7, "o"),),
    }
)
def commands_of_deltalake(writer: HandWriter) -> None:
    """Run append, DELETE, UPDATE of a partition, MERGE and overwrite, with a checkpoint between."""
    uri = str(writer.root)
    write_deltalake(uri, FIRST, partition_by=["p"])
    write_deltalake(uri, pa.table({"id": [4], "p": ["a"]}), mode="append")
    table = DeltaTable(uri)
    table.delete("id = 2")
    table.update(updates={"p": "'x'"}, predicate="p IS NULL")
    table.create_checkpoint()
    source = pa.table({"id": [1, 9], "p": ["m", "n"]})
    merge = table.merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    write_deltalake(uri, pa.table({"id": [7], "p": ["o"]}), mode="overwrite")


@foreign_table({3: ((1, 1), (2, 2), (3, 3))})
def files_that_deltalake_compacted(writer: HandWriter) -> None:
    uri = str(writer.root)
    for number in (1, 2, 3):
        write_deltalake(uri, pa.table({"id": [number], "v": [number]}), mode="append")
    DeltaTable(uri).optimize.compact()
    DeltaTable(uri).create_checkpoint()


@foreign_table({1: ((1, AT, None), (2, None, "z"))})
def schemas_that_deltalake_merged(writer: HandWriter) -> None:
    uri = str(writer.root)
    write_deltalake(uri, pa.table({"id": [1], "at": pa.array([AT], pa.timestamp("us", "UTC"))}))
    write_deltalake(uri, pa.table({"id": [2], "z": ["z"]}), mode="append", schema_mode="merge")
