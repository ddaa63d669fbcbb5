"""Tables whose log differs from this engine's: odd lines, odd statistics, features, or no log at all."""

import json

from engine.errors import (
    LogGapError,
    MalformedLogError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.engine.foreign.hand_writer import (
    HandWriter,
    column,
    metadata_of,
    protocol_of,
    remove_of,
    struct_of,
)
from tests.engine.foreign.tables import foreign_table

ID = column("id", "long")
ONE = ((1,),)


def _one_row(writer: HandWriter) -> dict[str, object]:
    return writer.file("f.parquet", {"id": [1]})


@foreign_table({0: (), 1: ((1,), (2,)), 2: ((1,), (2,))})
def lines_with_odd_spaces(writer: HandWriter) -> None:
    """Use carriage returns, blank lines, empty objects, another order, unknown actions and fields."""
    file = writer.file("f.parquet", {"id": [1, 2]}, somethingNew={"a": [1]}, clusteringProvider="x")
    writer.create("{}", '{"fancyAction":{"x":1}}', schema=[ID])
    lines = [
        "{}",
        json.dumps(file, indent=None, separators=(" ,  ", " :\t")),
        "",
        '{"commitInfo":{"operation":"WRITE","operationParameters":{"a":{"b":[1]}},"odd":null}}',
    ]
    writer.put(f"_delta_log/{1:020}.json", "\r\n".join(lines) + "\r\n\r\n{}")
    writer.put(f"_delta_log/{2:020}.json", '{"txn":{"appId":"a","version":1,"lastUpdated":null}}')


@foreign_table(ONE)
def fields_that_say_null(writer: HandWriter) -> None:
    file = writer.file("f.parquet", {"id": [1]}, tags=None, deletionVector=None, baseRowId=None)
    nothing = {"add": None, "remove": None, "txn": None}
    writer.commit(
        0,
        {"metaData": metadata_of([ID]) | {"name": None, "description": None, "createdTime": None}},
        {"protocol": protocol_of(1, 2) | {"readerFeatures": None, "writerFeatures": None}},
        nothing | file,
    )


@foreign_table({0: tuple((number,) for number in range(9))}, readers=("duckdb",))
def statistics_that_say_nothing(writer: HandWriter) -> None:
    """Use the text null, no statistics, no object, an object without a count, and too much space."""
    odd = ["null", None, "", "{}", '{"minValues":{}}', '\n{ "numRecords" :\n 1 }\n']
    files = [
        writer.file(f"f{number}.parquet", {"id": [number]}, stats=said)
        for number, said in enumerate(odd)
    ]
    explicit = writer.file("f6.parquet", {"id": [6]}, stats=None)
    explicit["add"]["stats"] = None
    bounds = '{"numRecords":1,"minValues":{"id":7,"gone":"x"},"maxValues":{"id":7},"nullCount":{}}'
    loose = '{"numRecords":1,"minValues":{"id":0},"maxValues":{"id":99},"tightBounds":false}'
    writer.create(
        *files,
        explicit,
        writer.file("f7.parquet", {"id": [7]}, stats=bounds),
        writer.file("f8.parquet", {"id": [8]}, stats=loose),
        schema=[ID],
    )


@foreign_table({0: ((1,), (2,)), 1: ((2,),), 2: ((2,), (1,))})
def a_file_that_comes_back(writer: HandWriter) -> None:
    """Remove a file in one version and add it again, under the same path, in the next."""
    file, other = _one_row(writer), writer.file("g.parquet", {"id": [2]})
    writer.create(file, other, schema=[ID])
    writer.commit(1, remove_of(file, partitionValues=None))
    writer.commit(2, file)


@foreign_table({0: ONE, 1: ((1, None),), 2: ((1, None), (2, "b")), 3: (("x",),)})
def schemas_that_change(writer: HandWriter) -> None:
    """Add a column, then overwrite with another schema and another type for an old name."""
    file = _one_row(writer)
    wider = [ID, column("name", "string")]
    writer.create(file, schema=[ID])
    writer.commit(1, {"metaData": metadata_of(wider)})
    second = writer.file("g.parquet", {"id": [2], "name": ["b"]})
    writer.commit(2, second)
    writer.commit(
        3,
        {"metaData": metadata_of([column("id", "string")])},
        remove_of(file),
        remove_of(second),
        writer.file("h.parquet", {"id": ["x"]}),
    )


@foreign_table(ONE)
def files_that_are_not_the_tables(writer: HandWriter) -> None:
    writer.create(_one_row(writer), schema=[ID])
    for path in (
        "_delta_log/.00000000000000000000.json.crc",
        "_delta_log/_staged_commits/00000000000000000001.a-b.json",
        "_delta_log/_commits/00000000000000000001.a-b.json",
        "_delta_log/00000000000000000001.json.tmp",
        "_delta_log/00000000000000000000.checkpoint.parquet.crc",
        "_delta_log/notes.txt",
        "_temporary/0/part-0.parquet",
        "part-of-nothing.parquet",
        "_SUCCESS",
    ):
        writer.put(path, b"not of the table")


@foreign_table(ONE)
def a_checksum_that_is_no_json(writer: HandWriter) -> None:
    writer.create(_one_row(writer), schema=[ID])
    writer.put(f"_delta_log/{0:020}.crc", "{nothing")


@foreign_table(ONE)
def a_checksum_of_another_table(writer: HandWriter) -> None:
    writer.create(_one_row(writer), schema=[ID])
    told = {"tableSizeBytes": 1, "numFiles": 9, "numMetadata": 1, "numProtocol": 1}
    whole = {**told, "metadata": metadata_of([ID]), "protocol": protocol_of(3, 7)}
    writer.put(f"_delta_log/{0:020}.crc", json.dumps(whole))


@foreign_table({0: ONE, 1: ONE})
def a_checksum_with_every_field(writer: HandWriter) -> None:
    """Write every field as delta-spark and the kernel do, with the files and the histogram of their sizes."""
    file = _one_row(writer)
    writer.create(file, schema=[ID])
    said = {"appId": "stream", "version": 3, "lastUpdated": 5}
    writer.commit(1, {"commitInfo": {"txnId": "a-b", "operation": "WRITE"}}, {"txn": said})
    size = file["add"]["size"]
    told = {
        "txnId": "a-b",
        "tableSizeBytes": size,
        "numFiles": 1,
        "numDeletedRecordsOpt": 0,
        "numDeletionVectorsOpt": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [said],
        "domainMetadata": [],
        "metadata": metadata_of([ID]),
        "protocol": protocol_of(1, 2),
        "fileSizeHistogram": {
            "sortedBinBoundaries": [0, 8192],
            "fileCounts": [1, 0],
            "totalBytes": [size, 0],
        },
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [1, 0]},
        "allFiles": [file["add"]],
    }
    writer.put(f"_delta_log/{1:020}.crc", json.dumps(told))


@foreign_table({0: ONE, 1: ((1,), (2,))})
def commit_timestamps(writer: HandWriter) -> None:
    """Enable in-commit timestamps at version 1; they are later than the file times."""
    writer.create(_one_row(writer), schema=[ID])
    on = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "1",
        "delta.inCommitTimestampEnablementTimestamp": "1900000000000",
    }
    writer.commit(
        1,
        {"commitInfo": {"inCommitTimestamp": 1_900_000_000_000, "operation": "WRITE"}},
        {"protocol": protocol_of(1, 7, [], ["inCommitTimestamp"])},
        {"metaData": metadata_of([ID], properties=on)},
        writer.file("g.parquet", {"id": [2]}),
    )


@foreign_table(((1,), (2,), (3,)))
def rows_that_are_tracked(writer: HandWriter) -> None:
    """Keep ids of moved rows in a column outside the table's schema."""
    features = ["domainMetadata", "rowTracking"]
    properties = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
    }
    moved = {"id": [2, 3], "_row-id-col-1": [1, None], "_row-commit-version-col-1": [0, None]}
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":13}'}
    writer.create(
        writer.file("f.parquet", {"id": [1]}, baseRowId=0, defaultRowCommitVersion=0),
        writer.file("g.parquet", moved, baseRowId=12, defaultRowCommitVersion=0),
        {"domainMetadata": {**mark, "removed": False}},
        schema=[ID],
        protocol=(1, 7, [], features),
        properties=properties,
    )


@foreign_table(((1, 2),))
def physical_clustering(writer: HandWriter) -> None:
    schema = [
        column("a b", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="c-1"),
        column("c", "long", delta__columnMapping__id=2, delta__columnMapping__physicalName="c-2"),
    ]
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["c-1"]]}'}
    writer.create(
        writer.file("f.parquet", {"c-1": [1], "c-2": [2]}, clusteringProvider="liquid"),
        {"domainMetadata": {**domain, "removed": False}},
        {"domainMetadata": {"domain": "my.app", "configuration": "", "removed": True}},
        schema=schema,
        protocol=(2, 7, ["columnMapping"], ["domainMetadata", "clustering"]),
        properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
    )


@foreign_table(ONE, readers=("duckdb",))
def vacuum_that_is_checked(writer: HandWriter) -> None:
    features = (3, 7, ["vacuumProtocolCheck"], ["appendOnly", "invariants"])
    writer.create(_one_row(writer), schema=[ID], protocol=features)


@foreign_table(((1, 2, 3),))
def rules_of_every_kind(writer: HandWriter) -> None:
    """Define a constraint, an invariant, a generated column, a default and an identity column."""
    invariant = json.dumps({"expression": {"expression": "id > 0"}})
    schema = [
        column("id", "long", delta__invariants=invariant),
        column("twice", "long", delta__generationExpression="id * 2"),
        column(
            "number",
            "long",
            delta__identity__start=1,
            delta__identity__step=2,
            delta__identity__highWaterMark=3,
            delta__identity__allowExplicitInsert=False,
        ),
    ]
    writer.create(
        writer.file("f.parquet", {"id": [1], "twice": [2], "number": [3]}),
        schema=schema,
        protocol=(1, 6),
        properties={"delta.constraints.positive": "id > 0", "delta.appendOnly": "false"},
    )


@foreign_table(ONE, read_only="collations-preview")
def a_feature_that_writers_must_know(writer: HandWriter) -> None:
    features = (1, 7, [], ["domainMetadata", "collations-preview"])
    writer.create(_one_row(writer), schema=[ID], protocol=features)


@foreign_table(((1, None),), read_only="icebergCompatV1")
def iceberg_compatibility_of_the_first_kind(writer: HandWriter) -> None:
    schema = [
        column("id", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="id"),
        column("n", "string", delta__columnMapping__id=2, delta__columnMapping__physicalName="n"),
    ]
    writer.create(
        _one_row(writer),
        schema=schema,
        protocol=(2, 7, ["columnMapping"], ["icebergCompatV1"]),
        properties={"delta.columnMapping.mode": "name", "delta.enableIcebergCompatV1": "true"},
    )


@foreign_table(refusal=UnsupportedFeatureError, readers=())
def a_feature_that_readers_must_know(writer: HandWriter) -> None:
    writer.create(_one_row(writer), schema=[ID], protocol=(3, 7, ["catalogManaged"]))


@foreign_table(refusal=UnsupportedFeatureError, readers=())
def a_version_of_readers_to_come(writer: HandWriter) -> None:
    writer.create(_one_row(writer), schema=[ID], protocol=(99, 7))


@foreign_table(refusal=MalformedLogError, readers=())
def a_log_without_a_protocol(writer: HandWriter) -> None:
    writer.commit(0, {"metaData": metadata_of([ID])}, _one_row(writer))


@foreign_table(refusal=MalformedLogError, readers=())
def a_log_without_metadata(writer: HandWriter) -> None:
    writer.commit(0, {"protocol": protocol_of(1, 2)}, _one_row(writer))


@foreign_table(refusal=MalformedLogError, readers=())
def metadata_without_a_schema_that_can_be_read(writer: HandWriter) -> None:
    broken = metadata_of([ID]) | {"schemaString": '{"type":"struct","fields":[{"name":1}]}'}
    writer.commit(0, {"protocol": protocol_of(1, 2)}, {"metaData": broken}, _one_row(writer))


@foreign_table(refusal=LogGapError, readers=())
def a_gap_between_versions(writer: HandWriter) -> None:
    writer.create(_one_row(writer), schema=[ID])
    writer.commit(2, writer.file("g.parquet", {"id": [2]}))


@foreign_table(refusal=TableNotFoundError, readers=())
def nothing_but_checksums(writer: HandWriter) -> None:
    writer.put(f"_delta_log/{0:020}.crc", '{"numFiles":0}')


@foreign_table({0: (), 1: ()}, unreadable=True, readers=())
def a_file_that_is_missing(writer: HandWriter) -> None:
    file = _one_row(writer)
    writer.create(schema=[ID])
    (writer.root / "f.parquet").unlink()
    writer.commit(1, file)


@foreign_table({0: ()}, unreadable=True, readers=())
def a_file_outside_of_the_table(writer: HandWriter) -> None:
    """Name a file as a shallow clone names those of its source."""
    beside = HandWriter(writer.root.parent / "source_of_a_clone")
    file = beside.file("f.parquet", {"id": [1]})
    file["add"]["path"] = (beside.root / "f.parquet").as_uri()
    writer.create(file, schema=[ID])


@foreign_table({0: ()}, unreadable=True, readers=())
def a_file_that_is_no_parquet(writer: HandWriter) -> None:
    file = _one_row(writer)
    writer.put("f.parquet", "id\n1\n")
    writer.create(file, schema=[ID])


@foreign_table(ONE, readers=("deltalake",))
def a_file_at_an_absolute_path_within(writer: HandWriter) -> None:
    file = _one_row(writer)
    file["add"]["path"] = (writer.root / "f.parquet").as_uri()
    writer.create(file, schema=[ID])


@foreign_table({0: ((1, {"x": 2, "y": None}),)})
def a_schema_of_another_writers_spelling(writer: HandWriter) -> None:
    """Write fields in another order, comments, and types with redundant properties."""
    inner = struct_of(column("x", "integer", comment="of x"), column("y", "string"))
    fields = [{"metadata": {}, "nullable": True, "type": "long", "name": "id"}]
    writer.create(
        writer.file("f.parquet", {"id": [1], "s": [{"x": 2, "y": None}]}),
        schema=[*fields, column("s", inner, comment="a struct")],
    )
