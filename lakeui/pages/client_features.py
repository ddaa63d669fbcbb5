"""What a table's protocol means for the programs that read and write it."""

from dataclasses import dataclass

from lakeui.catalog.models import Table

MEANING = {
    "appendOnly": "writers refuse DELETE and UPDATE where the property asks for it",
    "invariants": "writers check NOT NULL and invariants",
    "checkConstraints": "writers check each constraint",
    "changeDataFeed": "writers may keep the change rows of each version",
    "generatedColumns": "writers compute some columns",
    "columnMapping": "columns have names of their own in the files; old readers see nulls",
    "identityColumns": "writers draw numbers from the log: no two may insert at once",
    "deletionVectors": "rows are marked deleted beside the files; readers must apply the marks",
    "rowTracking": "each row keeps an id for life; lets OPTIMIZE be followed",
    "timestampNtz": "timestamps without a zone",
    "domainMetadata": "named settings of features live in the log",
    "clustering": "files are laid out by clustering columns",
    "v2Checkpoint": "checkpoints may be split into sidecars; old readers stop",
    "icebergCompatV1": "files also fit Apache Iceberg",
    "icebergCompatV2": "files also fit Apache Iceberg",
    "inCommitTimestamp": "the time of a version is in its commit, not the file's age",
    "vacuumProtocolCheck": "VACUUM checks the protocol first",
    "typeWidening": "some columns were widened; readers convert",
    "variantType": "semi-structured VARIANT columns",
    "allowColumnDefaults": "columns may have defaults",
    "catalogManaged": "commits go through a catalogue",
}


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    meaning: str
    is_for_readers: bool


@dataclass(frozen=True, slots=True)
class ClientNotes:
    """`limits` are sentences on who is locked out; empty where nobody is."""

    features: tuple[Feature, ...]
    limits: tuple[str, ...]


def client_notes(table: Table) -> ClientNotes:
    """From the protocol as mirrored."""
    readers = set(table.reader_features)
    names = sorted(readers | set(table.writer_features))
    features = tuple(
        Feature(name, MEANING.get(name, "not known to this page"), name in readers)
        for name in names
    )
    return ClientNotes(features, tuple(_limits(table, readers)))


def _limits(table: Table, readers: set[str]) -> list[str]:
    limits = []
    if "deletionVectors" in readers:
        limits.append(
            "Readers without deletion vectors refuse this table: delta-spark before 2.3, "
            "Presto and Trino before 420, and readers of Parquet files that know no Delta."
        )
    if "columnMapping" in readers or (table.min_reader_version or 0) == 2:
        limits.append("Readers without column mapping refuse this table.")
    if "v2Checkpoint" in readers:
        limits.append("Readers without v2 checkpoints refuse this table.")
    return limits
