"""The names of the files in `_delta_log` (protocol: File Types)."""

import re
import uuid
from dataclasses import dataclass
from enum import StrEnum

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = f"{LOG_DIRECTORY}/_sidecars"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"

_VERSION = r"(?P<version>[0-9]{20})"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class LogFileKind(StrEnum):
    """The kinds of log files."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"  # v1, or v2 under a classic name: one Parquet file
    CHECKPOINT_PART = "checkpoint part"
    CHECKPOINT_V2 = "v2 checkpoint"
    COMPACTED = "log compaction"
    CHECKSUM = "checksum"


_GRAMMAR = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (LogFileKind.COMMIT, rf"{_VERSION}\.json"),
        (LogFileKind.CHECKPOINT, rf"{_VERSION}\.checkpoint\.parquet"),
        (
            LogFileKind.CHECKPOINT_PART,
            rf"{_VERSION}\.checkpoint\.(?P<part>[0-9]{{10}})\.(?P<parts>[0-9]{{10}})\.parquet",
        ),
        (LogFileKind.CHECKPOINT_V2, rf"{_VERSION}\.checkpoint\.{_UUID}\.(?:json|parquet)"),
        (LogFileKind.COMPACTED, rf"{_VERSION}\.(?P<end>[0-9]{{20}})\.compacted\.json"),
        (LogFileKind.CHECKSUM, rf"{_VERSION}\.crc"),
    )
)


@dataclass(frozen=True, slots=True)
class LogFileName:
    """A parsed log file name. `end_version` differs from `version` only for compactions."""

    kind: LogFileKind
    version: int
    end_version: int
    part: int = 1
    parts: int = 1


def parse_name(name: str) -> LogFileName | None:
    """Parse a file name of `_delta_log`; return None if it is not the log's."""
    for kind, pattern in _GRAMMAR:
        match = pattern.fullmatch(name)
        if match is not None and name.isascii():
            groups = match.groupdict()
            version = int(groups["version"])
            return LogFileName(
                kind,
                version,
                int(groups.get("end") or version),
                int(groups.get("part") or 1),
                int(groups.get("parts") or 1),
            )
    return None


def is_of_version(name: str, version: int) -> bool:
    """Return whether a file of `_delta_log` is of a version or an earlier one, or of none."""
    parsed = parse_name(name)
    return parsed is None or parsed.end_version <= version


def commit_path(version: int) -> str:
    """Return the path of a version's commit."""
    return f"{LOG_DIRECTORY}/{version:020}.json"


def checkpoint_path(version: int) -> str:
    """Return the path of a version's classic checkpoint."""
    return f"{LOG_DIRECTORY}/{version:020}.checkpoint.parquet"


def v2_checkpoint_path(version: int, suffix: str = "parquet") -> str:
    """Return a new path for a v2 checkpoint."""
    return f"{LOG_DIRECTORY}/{version:020}.checkpoint.{uuid.uuid4()}.{suffix}"


def sidecar_path() -> str:
    """Return a new path for a sidecar."""
    return f"{SIDECAR_DIRECTORY}/{uuid.uuid4()}.parquet"


def compaction_path(start_version: int, end_version: int) -> str:
    """Return the path of a compaction of the commits of a range, both ends included."""
    return f"{LOG_DIRECTORY}/{start_version:020}.{end_version:020}.compacted.json"


def checksum_path(version: int) -> str:
    """Return the path of a version's checksum."""
    return f"{LOG_DIRECTORY}/{version:020}.crc"
