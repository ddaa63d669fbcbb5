"""Table properties (`delta.*` in the metadata's configuration), parsed once."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from engine.errors import InvalidIsolationLevelError, InvalidPropertyError
from engine.schema.column_paths import ColumnPath, parse_column_paths

STATS_COLUMNS = "delta.dataSkippingStatsColumns"
DEFAULT_PREFIX_LENGTH = 32
RESOLUTION_PROPERTY = "lakeui.featureEnablement.conflictResolution.enabled"
"""Whether running writes pass a commit that only enables a feature; delta-spark has it in a session."""
DAY_MS = 24 * 3600 * 1000
"""The names along the way to a column, outermost first."""
_UNITS_MS = {
    "microsecond": 0,
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
}
_DURATION = re.compile(r"^(?:interval\s+)?((?:-?[0-9]+\s+[a-z]+\s*)+)$", re.IGNORECASE)
_DURATION_PART = re.compile(r"(-?[0-9]+)\s+([a-z]+)", re.IGNORECASE)
_SIZE = re.compile(r"^([0-9]+)\s*([kmgt]?)b?$", re.IGNORECASE)


class UnknownPropertyError(
    InvalidPropertyError, code="DELTA_UNKNOWN_CONFIGURATION", sqlstate="F0000"
):
    """A property with the prefix `delta.` does not exist."""


class InvalidIntervalError(InvalidPropertyError, code="DELTA_INVALID_INTERVAL", sqlstate="22006"):
    """A property that is a duration has a value that is no interval."""


class IsolationLevel(StrEnum):
    """The checks of a commit. A table is set to one of `SETTABLE_LEVELS`."""

    WRITE_SERIALIZABLE = "WriteSerializable"
    SERIALIZABLE = "Serializable"
    SNAPSHOT = "SnapshotIsolation"  # used by commits that change no data


SETTABLE_LEVELS = (IsolationLevel.WRITE_SERIALIZABLE, IsolationLevel.SERIALIZABLE)


@dataclass(frozen=True)
class TableProperties:
    """Parsed table properties. Durations in ms, sizes in bytes.

    `log_compaction_interval` counts commits; 0 and 1 disable compaction. `optimize_write` is None
    if the table leaves it to the engine. `auto_optimize` is the older name of `auto_compact` and
    overrides it if true.
    """

    isolation_level: IsolationLevel = IsolationLevel.WRITE_SERIALIZABLE
    resolves_feature_enablement: bool = False
    asked_reader_version: int = 1
    asked_writer_version: int = 1
    append_only: bool = False
    checkpoint_interval: int = 10
    checkpoint_policy: str = "classic"
    log_compaction_interval: int = 0
    write_stats_as_json: bool = True
    write_stats_as_struct: bool = True
    enable_deletion_vectors: bool = False
    enable_change_data_feed: bool = False
    enable_expired_log_cleanup: bool = True
    enable_type_widening: bool = False
    column_mapping_mode: str = "none"
    column_mapping_max_id: int = 0
    row_tracking: bool = False
    row_tracking_suspended: bool = False
    row_id_column: str | None = None
    row_commit_version_column: str | None = None
    iceberg_compat_v2: bool = False
    universal_formats: tuple[str, ...] = ()
    in_commit_timestamps: bool = False
    in_commit_timestamp_enablement_version: int | None = None
    in_commit_timestamp_enablement_ms: int | None = None
    checkpoint_protection_version: int = 0
    log_retention_ms: int = 30 * DAY_MS
    drop_feature_retention_ms: int = DAY_MS
    deleted_file_retention_ms: int = 7 * DAY_MS
    set_transaction_retention_ms: int | None = None
    data_skipping_num_indexed_cols: int = 32
    data_skipping_string_prefix_length: int = DEFAULT_PREFIX_LENGTH
    data_skipping_stats_columns: tuple[ColumnPath, ...] | None = None
    target_file_size_bytes: int | None = None
    randomize_file_prefixes: bool = False
    random_prefix_length: int = 2
    optimize_write: bool | None = None
    auto_optimize: bool = False
    auto_compact: str = "false"

    @property
    def compacts_itself(self) -> bool:
        """Whether writes are followed by a compaction; `auto` and `legacy` are Databricks' words."""
        return self.auto_optimize or self.auto_compact != "false"

    @property
    def file_prefix_length(self) -> int:
        """The length of new files' random directory names; 0 if not requested."""
        return self.random_prefix_length if self.randomize_file_prefixes else 0

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> Self:
        """Parse a configuration, ignoring unknown keys.

        Raises:
            InvalidPropertyError: a known key has an invalid value.
            InvalidIsolationLevelError: `delta.isolationLevel` has an invalid value.
        """
        values: dict[str, Any] = {}
        for key, text in configuration.items():
            parser = _KNOWN.get(key)
            if parser is not None and text is not None:
                values[parser[0]] = parser[1](key, str(text))
        return cls(**values)


def validate_properties(properties: Mapping[str, str]) -> None:
    """Check properties to be set.

    Raises:
        UnknownPropertyError: a `delta.` key does not exist.
        InvalidPropertyError: a value is invalid.
    """
    TableProperties.parse(properties)
    for key in properties:
        lowered = key.lower()
        if not lowered.startswith("delta.") or lowered.startswith(_FREE_PREFIXES):
            continue
        if key not in _KNOWN and key not in _OTHER_KEYS:
            msg = f"There is no table property {key}."
            remedy = "Check the spelling, including capital letters."
            raise UnknownPropertyError(msg, remedy, field=key)


def constraint_name(key: str) -> str | None:
    """Return the name of the CHECK constraint of a property; None for any other property.

    As in delta-spark, capital letters of the prefix do not matter.
    """
    is_constraint = key.lower().startswith(CONSTRAINT_PREFIX)
    return key[len(CONSTRAINT_PREFIX) :] if is_constraint else None


def normalize_value(key: str, text: str) -> str:
    """Return an enumerated property's value in canonical spelling; any other unchanged."""
    if key not in _ENUMERATED:
        return text
    try:
        return str(_KNOWN[key][1](key, text))
    except InvalidPropertyError:
        return text


def _wrong(key: str, text: str, expected: str) -> InvalidPropertyError:
    kind = InvalidIsolationLevelError if key == "delta.isolationLevel" else InvalidPropertyError
    return kind(f"{key} cannot be {text[:200]!r}.", f"Use {expected}.", field=key)


def _boolean(key: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise _wrong(key, text, "true or false")
    return text.strip().lower() == "true"


def _integer(minimum: int, maximum: int | None = None) -> Callable[[str, str], int]:
    most = "" if maximum is None else f" and at most {maximum}"

    def parse(key: str, text: str) -> int:
        number = int(text) if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text) else None
        if number is None or number < minimum or (maximum is not None and number > maximum):
            raise _wrong(key, text, f"a whole number, at least {minimum}{most}")
        return number

    return parse


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def parse(key: str, text: str) -> str:
        match = next((value for value in allowed if value.lower() == text.strip().lower()), None)
        if match is None:
            raise _wrong(key, text, " or ".join(allowed))
        return match

    return parse


def _duration_ms(key: str, text: str) -> int:
    expected = "an interval such as 'interval 7 days'"
    match = _DURATION.match(text.strip())
    if match is None:
        what = f"{key} cannot be {text[:200]!r}."
        raise InvalidIntervalError(what, f"Use {expected}.", field=key)
    total = 0
    for amount, unit in _DURATION_PART.findall(match[1]):
        scale = _UNITS_MS.get(unit.lower().removesuffix("s"))
        if scale is None or len(amount) > 12:
            raise _wrong(key, text, expected)
        total += int(amount) * scale
    if total < 0:
        raise _wrong(key, text, expected)
    return total


def _size_bytes(key: str, text: str) -> int:
    match = _SIZE.match(text.strip())
    if match is None or len(match[1]) > 15 or int(match[1]) == 0:
        raise _wrong(key, text, "a size such as '128mb'")
    return int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ")


def _words(_key: str, text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _column_paths(_key: str, text: str) -> tuple[ColumnPath, ...] | None:
    """Parse listed columns; an invalid list counts as none (setting it is refused elsewhere)."""
    try:
        return parse_column_paths(text)
    except ValueError:
        return None


def _text(_key: str, text: str) -> str:
    return text


_KNOWN: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "delta.minReaderVersion": ("asked_reader_version", _integer(1, 3)),
    "delta.minWriterVersion": ("asked_writer_version", _integer(1, 7)),
    RESOLUTION_PROPERTY: ("resolves_feature_enablement", _boolean),
    "delta.isolationLevel": ("isolation_level", _one_of(*SETTABLE_LEVELS)),
    "delta.appendOnly": ("append_only", _boolean),
    "delta.checkpointInterval": ("checkpoint_interval", _integer(1)),
    "delta.checkpointPolicy": ("checkpoint_policy", _one_of("classic", "v2")),
    "delta.logCompactionInterval": ("log_compaction_interval", _integer(0)),
    "delta.checkpoint.writeStatsAsJson": ("write_stats_as_json", _boolean),
    "delta.checkpoint.writeStatsAsStruct": ("write_stats_as_struct", _boolean),
    "delta.enableDeletionVectors": ("enable_deletion_vectors", _boolean),
    "delta.enableChangeDataFeed": ("enable_change_data_feed", _boolean),
    "delta.enableExpiredLogCleanup": ("enable_expired_log_cleanup", _boolean),
    "delta.enableTypeWidening": ("enable_type_widening", _boolean),
    "delta.columnMapping.mode": ("column_mapping_mode", _one_of("none", "name", "id")),
    "delta.columnMapping.maxColumnId": ("column_mapping_max_id", _integer(0)),
    "delta.enableRowTracking": ("row_tracking", _boolean),
    "delta.rowTrackingSuspended": ("row_tracking_suspended", _boolean),
    "delta.rowTracking.materializedRowIdColumnName": ("row_id_column", _text),
    "delta.rowTracking.materializedRowCommitVersionColumnName": (
        "row_commit_version_column",
        _text,
    ),
    "delta.enableIcebergCompatV2": ("iceberg_compat_v2", _boolean),
    "delta.universalFormat.enabledFormats": ("universal_formats", _words),
    "delta.enableInCommitTimestamps": ("in_commit_timestamps", _boolean),
    "delta.inCommitTimestampEnablementVersion": (
        "in_commit_timestamp_enablement_version",
        _integer(0),
    ),
    "delta.inCommitTimestampEnablementTimestamp": (
        "in_commit_timestamp_enablement_ms",
        _integer(0),
    ),
    "delta.requireCheckpointProtectionBeforeVersion": (
        "checkpoint_protection_version",
        _integer(0),
    ),
    "delta.logRetentionDuration": ("log_retention_ms", _duration_ms),
    "delta.dropFeatureTruncateHistory.retentionDuration": (
        "drop_feature_retention_ms",
        _duration_ms,
    ),
    "delta.deletedFileRetentionDuration": ("deleted_file_retention_ms", _duration_ms),
    "delta.setTransactionRetentionDuration": ("set_transaction_retention_ms", _duration_ms),
    "delta.dataSkippingNumIndexedCols": ("data_skipping_num_indexed_cols", _integer(-1)),
    "delta.dataSkippingStringPrefixLength": (
        "data_skipping_string_prefix_length",
        _integer(0, 2**31 - 1),
    ),
    STATS_COLUMNS: ("data_skipping_stats_columns", _column_paths),
    "delta.randomizeFilePrefixes": ("randomize_file_prefixes", _boolean),
    "delta.randomPrefixLength": ("random_prefix_length", _integer(1, 64)),
    "delta.targetFileSize": ("target_file_size_bytes", _size_bytes),
    "delta.autoOptimize.optimizeWrite": ("optimize_write", _boolean),
    "delta.autoOptimize": ("auto_optimize", _boolean),
    "delta.autoOptimize.autoCompact": (
        "auto_compact",
        _one_of("true", "false", "auto", "legacy"),
    ),
}
_ENUMERATED = frozenset(
    {
        "delta.isolationLevel",
        "delta.checkpointPolicy",
        "delta.columnMapping.mode",
        "delta.autoOptimize.autoCompact",
    }
)
"""Properties with enumerated values."""
_OTHER_KEYS = frozenset(
    {
        "delta.checkpointRetentionDuration",
        "delta.compatibility.symlinkFormatManifest.enabled",
        "delta.enableFullRetentionRollback",
        "delta.enableIcebergCompatV1",
        "delta.ignoreProtocolDefaults",
        "delta.parquet.compression.codec",
        "delta.sampleRetentionDuration",
        "delta.tuneFileSizesForRewrites",
    }
)
CONSTRAINT_PREFIX = "delta.constraints."
"""The key prefix of properties for CHECK constraints."""
_FREE_PREFIXES = (
    CONSTRAINT_PREFIX,
    "delta.feature.",
    "delta.universalformat.",
    "delta.identity.",
)
